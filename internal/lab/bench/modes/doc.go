// Package modes measures the modes of a run against synchronous data-parallel training, with the
// real engine: one process a peer.
//
//	Run (run.go): warm start, once (reference.go)
//	     -> for each seed: data-parallel reference, then for each row (rows.go)
//	     -> processes, which are watched (swarm.go) -> curve of losses, and bandwidth (curve.go)
//	     -> bench.Report, in which a seed is a turn
//
// All rows have the same model, warm start with its inner optimizer's state, seeds and number of
// tokens. Inner steps last equally long on all peers (reference.go), so long that no peer waits for
// the machine's cores. Only then do stall and wall-clock time mean something when peers share a
// machine.
package modes
