// Package reducebench measures the all-reduce: what `bench allreduce` does.
//
//	Run: openSwarm (swarm.go: one process a peer, peer.go within it) and, to compare, openMPI (mpi.go)
//	     -> rounds of all contenders in turn (run.go), each begun by this process over pipes, so that all peers begin at once
//	     -> Result (result.go), table (table.go); RunGoals (goals.go) does so for each figure that is a goal
//
// A peer is a real p2p.Network and a real allreduce.Engine, without a ledger: the plans are made here. What is timed is the
// reduction alone, from the start signal until all pieces are in the peer's result; a round's time is the slowest peer's. Contributions
// are made from numbers that everybody can compute (values.go), so that each peer can check its share of the outcome against a plain
// float64 reference.
package reducebench
