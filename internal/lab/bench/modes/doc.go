// Package modesbench measures the modes of a run against synchronous data-parallel training, with
// the real engine: one process a peer.
//
//	Run: warm start (warm.go, once)
//	     -> for each seed: data-parallel reference (reference.go), then for each row (rows.go)
//	     -> processes, which are watched (swarmrun.go)
//	     -> curve of losses, and bandwidth (curve.go)
//	     -> Result (result.go, summed up in summary.go), goals (goals.go), table (table.go)
//
// All rows have the same model, warm start with its inner optimizer's state, seeds and number of
// tokens. Inner steps last equally long on all peers (reference.go), so long that no peer waits for
// the machine's cores. Only then do stall and wall-clock time mean something when peers share a
// machine.
package modes
