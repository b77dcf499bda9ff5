package rules

// For tests that hold the shortcut against the search.
var (
	MayMention = mayMention
	Mention    = mention
	Plain      = plain
)
