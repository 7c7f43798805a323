// Package reduce measures the all-reduce: what `bench allreduce` does.
//
//	Run: openSwarm (swarm.go: one process for each peer, which runs peer.go), bench.OpenMPI
//	     -> rounds of all contenders in turn (run.go), started over pipes at the same time
//	     -> bench.Report (report.go)
//	RunGoals does so for each case that has a goal
//
// A peer is a real p2p.Network and a real allreduce.Engine, without a ledger: the plans are made
// here. Only the reduction is timed, from the start signal until all pieces are in the peer's
// result; a round's time is that of the slowest peer. Contributions are made from numbers that
// every peer can compute (values.go), so that each peer can check its share of the outcome against
// a plain float64 reference.
package reduce
