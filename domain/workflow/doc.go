// Package workflow holds the automation of a workspace: the form of a workflow's graph and triggers, the checks of a
// publication, the language of templates, the matching of triggers, the times of schedules, and the decisions about
// workflows and their runs (rules WFL-1 to WFL-33).
//
// A draft is compiled once, by Check, to a Plan. Runs follow the plan of the version that they were started with.
package workflow
