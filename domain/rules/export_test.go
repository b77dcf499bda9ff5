package rules

// For tests that compare the filter with the search.
var (
	MayMention = mayMention
	Mention    = mention
	Plain      = plain
)
