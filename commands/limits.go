package commands

// How many resources of a kind a workspace may have (rule API-39). The lists of labels, segments and saved replies have
// no pages, and every segment is counted.
const (
	maxAPIKeys      = 500 // that are not revoked, with the tokens of service identities
	maxLabels       = 5_000
	maxPools        = 500
	maxSegments     = 500
	maxSavedReplies = 2_000
	maxAgents       = 1_000 // agents cannot be deleted
)
