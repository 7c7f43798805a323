// Package modesbench measures the modes of a run against synchronous data-parallel training, with
// the real engine: one process a peer.
//
//	Run: warm start (warm.go, once)
//	     -> for each seed: data-parallel reference (reference.go), then for each row (rows.go)
//	     -> processes (swarmrun.go, watched by peer.go)
//	     -> curve (curve.go) and bandwidth (bandwidth.go)
//	     -> Result (result.go, summed up in summary.go), goals (goals.go), table (table.go)
//
// All rows have the same model, warm start with its inner optimizer's state, seeds and number of
// tokens. Inner steps last equally long on all peers (pace.go), so long that no peer waits for the
// machine's cores. Only then do stall and wall-clock time mean something when peers share a
// machine.
package modesbench
