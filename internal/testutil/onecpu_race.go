//go:build race

package testutil

import "runtime"

// OneCPU gives the tests of the package that calls it from init one CPU when they are built with
// -race. Each package whose tests use testing/synctest has to.
//
// Up to Go 1.26 at least, a goroutine of a bubble that looks at a timer's channel as the timer is
// due runs the timer itself, in the one race context that all timers of the bubble share. Two at
// once, on two threads, spoil the race detector's memory: it ends the process with "CHECK failed"
// or a segmentation violation in SlotLock, now and then (go.dev/issue/78156). One thread at a time
// cannot. Races are found all the same: the detector compares what happened before what, not what
// happened at once.
func OneCPU() { runtime.GOMAXPROCS(1) }
