package main

import (
	"runtime/debug"
	"time"
)

// gitVersion is what `git describe` says of the commit that was built. The Makefile sets it when it links the program.
var gitVersion string

// versionCommand prints what was built, from what.
type versionCommand struct{}

// Run implements the command.
func (versionCommand) Run(con *console) error {
	return con.print(readBuild())
}

// build describes the running program. Unknown texts are empty.
type build struct {
	Version  string     `json:"version"`
	Commit   string     `json:"commit,omitempty"`
	Time     *time.Time `json:"commit_time,omitempty"`
	Modified bool       `json:"modified"` // whether there were uncommitted changes
	Go       string     `json:"go"`
}

func readBuild() build {
	b := build{Version: version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			if at, err := time.Parse(time.RFC3339, s.Value); err == nil {
				b.Time = &at
			}
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// version names the running program: the git tag with the commits since, set by the Makefile; else the version under
// which `go install` fetched the module, or the commit; "dev" for `go run`, which records none of them.
func version() string {
	if gitVersion != "" {
		return gitVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	commit, modified := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case "vcs.modified":
			if s.Value == "true" {
				modified = "-dirty"
			}
		}
	}
	switch {
	case commit != "":
		return commit + modified
	case info.Main.Version != "" && info.Main.Version != "(devel)":
		return info.Main.Version
	}
	return "dev"
}
