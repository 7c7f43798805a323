// Package step measures how long an outer step takes that a user waits for, and the all-reduce in
// it, beside OpenMPI's: what `bench step` does.
//
//	Run (run.go): a bootstrap node, and a process for each peer, which runs Serve (peer.go)
//	     -> report of each peer: when it did what in each slot (marks.go), and what it used (meter.go)
//	     -> phases of each slot on each peer (phases.go) -> bench.Report (result.go)
//
// A peer is a whole node, as users have it: libp2p, ledger, all-reduce, and a data directory on the
// real disk. Only its trainer takes no time. A peer tells of itself by its events, by the calls of
// its trainer, and by one hook (testhooks.Hooks.Offer); counters stand around its disk, and around
// what its ledger signs with, checks with and sends with. All clocks are this machine's one.
package step
