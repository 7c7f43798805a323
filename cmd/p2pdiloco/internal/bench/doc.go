// Package bench measures the modes of a run against synchronous data-parallel training, with the real engine: one process a peer.
//
//	Run: warm start (warm.go, once) -> for each seed: data-parallel reference (reference.go), then for each row (rows.go)
//	     processes (swarmrun.go, watched by peer.go) -> curve (curve.go) and bandwidth (bandwidth.go)
//	     -> Result (result.go, summed up in summary.go), goals (goals.go), table (table.go)
//
// What all rows have in common: the model, the warm start with its inner optimizer's state, the seeds and the number of tokens. Inner
// steps last equally long on all peers (pace.go), so long that the machine's cores are not what anybody waits for; only then do
// stall and wall-clock time say something where peers share a machine.
package bench
