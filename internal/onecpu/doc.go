// Package onecpu gives the tests of a package that imports it one CPU when they are built with
// -race. It belongs in each package whose tests use testing/synctest:
//
//	import _ "github.com/p2pdiloco/p2pdiloco/internal/onecpu" // see there
//
// Up to Go 1.26 at least, a goroutine of a bubble that looks at a timer's channel as the timer is
// due runs the timer itself, in the one race context that all timers of the bubble share. Two at
// once, on two threads, spoil the race detector's memory: it ends the process with "CHECK failed"
// or a segmentation violation in SlotLock, now and then (go.dev/issue/78156). One thread at a time
// cannot. Races are found all the same: the detector compares what happened before what, not what
// happened at once.
package onecpu
