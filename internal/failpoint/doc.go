// Package failpoint names places in the code of a node where a fault costs most, so that tests can
// let a process fail exactly there. Chaos (internal/lab/chaos) does this with the kind failpoint.
//
// A program has failpoints only if it is built with the tag failpoints:
//
//	go build -tags failpoints ./cmd/p2pdiloco
//
// Without the tag Here is an empty function, which the compiler removes, and Now is time.Now. With
// the tag, the environment names a file (order.Variable). Here looks for the file each time. If the
// file names the place, the process takes the order: it renames the file, so that only one
// goroutine of one process takes it, and then crashes or sleeps. The environment can also
// say that the process's clock is wrong (order.Clock). Now is that clock. It is asked where a time
// is told to others or compared with theirs: in hellos, probes and tickets.
package failpoint
