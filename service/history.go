package service

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ledgerline/eventstore"
	"ledgerline/eventstore/feed"
	"ledgerline/httpapi"
)

// compareCheckpoints compares the checkpoints of all consumers with the ledger before a rewind is over. Checkpoints are
// in the same database as the ledger and go back with it, so usually all of them fit. If one does not, the database was
// put together from parts of different times: the node fails, and its next start rebuilds the projections and refuses
// to run the processes.
func (n *Node) compareCheckpoints(ctx context.Context, _ eventstore.Rewind) error {
	foreign, err := feed.ForeignCheckpoints(ctx, n.Ledger)
	if err != nil || len(foreign) == 0 {
		return err
	}
	err = fmt.Errorf("after the history of the database went back, %s; the node has to start again", describe(foreign))
	select {
	case n.failed <- err:
	default:
	}
	return err
}

func describe(foreign []feed.ForeignCheckpoint) string {
	list := make([]string, len(foreign))
	for i := range foreign {
		list[i] = foreign[i].String()
	}
	return strings.Join(list, "; ")
}

// historyIsWhole returns an error while the history of the ledger is being settled, and while a consumer is stopped
// because its checkpoint is not in the ledger.
func (n *Node) historyIsWhole() error {
	if rewind := n.Ledger.Rewound(); rewind != nil {
		return &httpapi.ReadinessReason{Text: rewind.String()}
	}
	if stopped := n.progress.Foreign(); len(stopped) > 0 {
		return &httpapi.ReadinessReason{Text: stopped[0].Error()}
	}
	if len(n.stopped) > 0 {
		return &httpapi.ReadinessReason{Text: strings.Join(n.stopped, ", ") + ": the checkpoint is not an event of this ledger"}
	}
	return nil
}

// mayRun reports whether the tasks of a process may run: its checkpoint is in the ledger. Tasks of another history must
// not run, since they could repeat what was done or do what was never asked for.
func (n *Node) mayRun(ctx context.Context, process string) (bool, error) {
	foreign, err := feed.ForeignCheckpoints(ctx, n.Ledger)
	if err != nil {
		return false, err
	}
	foreign = slices.DeleteFunc(foreign, func(f feed.ForeignCheckpoint) bool { return f.Consumer != process })
	if len(foreign) == 0 {
		return true, nil
	}
	n.stopped = append(n.stopped, process)
	n.cfg.Logger.Error("service: a process does not run, because its tables are of another history than the ledger: restore both from one backup, then start again",
		"process", process, "problem", describe(foreign))
	return false, nil
}
