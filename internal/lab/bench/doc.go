// Package bench is the benches of p2plab: how long a step takes (RunStep) and how well modes learn
// (RunModes). They share
//
//	Place        where the processes of a swarm run: on loopback, or each in a namespace behind a link
//	Report       what was measured, in Go's benchmark format, with medians beside the goals (goals.txt)
//	OpenMPI      MPI_Allreduce of the machine's OpenMPI, to measure beside
//	CPUSeconds   what a process has used; PeakMemory, LiveMemory
//
// # A step
//
// RunStep measures how long an outer step takes that a user waits for, and the all-reduce, in
// it (`bench step`) or alone (`bench allreduce`), beside OpenMPI's.
//
//	RunStep (steprun.go): in turns, a swarm of each case, and OpenMPI
//	     -> a process for each peer, which runs ServePeer (peer.go), and is called over pipes (net/rpc)
//	     -> what they answer -> Report (stepresult.go)
//
// A peer of `bench step` is a whole node, as users have it: libp2p, ledger, all-reduce, and a data
// directory on the real disk. Only its trainer takes no CPU time. Its answer is when it did what in
// each slot, which is divided into phases (phases.go), and what it used (usage.go): it tells of
// itself by its events, by the calls of its trainer, by its status, and by one hook
// (edge.Hooks.Offer). All clocks are this machine's one.
//
// The floor (floor.go) is the CPU time that the encryption, the copies and the arithmetic of a slot
// cost, of all N peers together. Of a model of D bytes it is
//
//	floor = wire x network + N*D x hash + wire x (hash + norm) + N*D x (subtract + norm + encode)
//	        + N*D x step + N*D x write
//
//	wire      2(N-1)*D: what peers must send each other, contributions and the outcome
//	network   TCP over loopback and TLS 1.3 of crypto/tls, both ends; AES-128-GCM where the
//	          processor has instructions for it; 128 KiB a system call, as the bulk path has it
//	hash      BLAKE3 of frames: of contributions where they are made, and of all that is received
//	norm      the squared norm, likewise
//	subtract  anchor - parameters
//	encode    the codec
//	step      the run's outer optimizer
//	write     of the outcome, over a file that is in the page cache, without fsync
//
// Each unit is the CPU time that a byte takes in one pass over vectors of D bytes, of 16 MiB at
// least, which other passes have pushed out of the caches: the median of three, measured before
// each swarm. What travels, is hashed and is written is encoded; the outcome counts as a
// contribution, though with codec sign it is larger. The mean of contributions, the state root, the
// ledger, checkpoints, and the trainer's copies are not in the floor.
//
// A peer of `bench allreduce` (alone.go) has a real p2p.Network and a real allreduce.Engine: the
// plan is made here. A reduction begins at once on all peers, and takes as long as the slowest of
// them: until all pieces are in its outcome.
//
// # Modes
//
// RunModes measures the modes of a run against synchronous data-parallel training, with the real
// engine: one process a peer.
//
//	RunModes (modesrun.go): warm start, once (reference.go)
//	     -> for each seed: data-parallel reference, then for each row (rows.go)
//	     -> processes, which are watched (swarm.go) -> curve of losses, and bandwidth (curve.go)
//	     -> Report, in which a seed is a turn
//
// All rows have the same model, warm start with its inner optimizer's state, seeds and number of
// tokens. Inner steps last equally long on all peers (reference.go), so long that no peer waits for
// the machine's cores. Only then do stall and wall-clock time mean something when peers share a
// machine.
package bench
