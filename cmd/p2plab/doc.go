// Command p2plab tests and measures p2pdiloco on one machine. It is for engineers of the project;
// users need only cmd/p2pdiloco.
//
//	p2plab chaos              a swarm, hurt by a schedule: nothing agreed may be lost
//	p2plab bench modes        what the modes of a run cost, against data-parallel training
//	p2plab bench step         how long an outer step takes, by phase
//	p2plab bench allreduce    time, bytes, CPU and memory of the all-reduce
//
// `go run ./cmd/p2plab chaos` works on a machine that has Go and this repository, and nothing else:
// p2plab carries the commands join and bootstrap of p2pdiloco, hidden, and the peers of its swarms
// are processes of p2plab itself. So a swarm always runs the code that it was started from.
//
// Each command is one file here, which reads flags; the work is done by packages of internal/lab.
package main
