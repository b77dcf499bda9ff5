package service

import (
	"ledgerline/adapters/simulator"
	"ledgerline/processes"
)

// SimulatorCarrier is the carrier's name of lines that the simulator serves.
const SimulatorCarrier = "simulator"

// openCarriers makes every carrier there is, on every node that may ask one: the one that sends, and the one that looks
// numbers up. What carriers report on their own, they report on nodes that process.
func (n *Node) openCarriers() error {
	if !n.cfg.Roles.Write && !n.cfg.Roles.Process {
		return nil
	}
	sim, err := simulator.Open(simulator.Config{
		Pool: n.pool, Clock: n.Clock, AEAD: n.Ledger.Keyring().AEAD(), Inbox: processes.NewReports(n.App), Logger: n.cfg.Logger,
		Passive: !n.cfg.Roles.Process,
	})
	if err != nil {
		return err
	}
	n.Simulator = sim
	n.carriers = processes.Carriers{SimulatorCarrier: sim}
	return nil
}
