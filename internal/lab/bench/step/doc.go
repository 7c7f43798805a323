// Package step measures how long an outer step takes that a user waits for, and the all-reduce, in
// it (`bench step`) or alone (`bench allreduce`), beside OpenMPI's.
//
//	Run (run.go): in turns, a swarm of each case, and OpenMPI
//	     -> a process for each peer, which runs Serve (peer.go), and is called over pipes (net/rpc)
//	     -> what they answer -> bench.Report (result.go)
//
// A peer of `bench step` is a whole node, as users have it: libp2p, ledger, all-reduce, and a data
// directory on the real disk. Only its trainer takes no time. Its answer is when it did what in
// each slot, which is divided into phases (phases.go), and what it used (meter.go): it tells of
// itself by its events, by the calls of its trainer, and by one hook (testhooks.Hooks.Offer);
// counters stand around its disk, and around what its ledger signs with, checks with and sends
// with. All clocks are this machine's one.
//
// A peer of `bench allreduce` (alone.go) has a real p2p.Network and a real allreduce.Engine: the
// plan is made here. A reduction begins at once on all peers, and takes as long as the slowest of
// them: until all pieces are in its outcome.
package step
