package replica

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
)

// What the percentage allows is the greater of 32 MiB and an eighth of a vector, or as much as is
// in use where that is less.
func TestGCPercent(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		vector, live uint64 // MiB
		want         int
	}{{1, 7, 100}, {4, 32, 100}, {8, 64, 50}, {64, 448, 7}, {256, 1280, 2}, {2400, 12000, 2}, {1 << 40, 1 << 43, 1}} {
		got := gcPercent(c.vector*mib, c.live*mib)
		if got != c.want {
			t.Errorf("%d of vectors of %d MiB: %d%%, want %d%%", c.live, c.vector, got, c.want)
		}
		if garbage := c.live * uint64(got) / 100; garbage > max(32, c.vector/8) && got > 1 {
			t.Errorf("%d of vectors of %d MiB: %d MiB of garbage", c.live, c.vector, garbage)
		}
	}
}

// A program that allows less garbage, or has its own GOGC, keeps that.
func TestFrugalAllowsNoMoreThanBefore(t *testing.T) {
	t.Setenv("GOGC", "")
	_ = os.Unsetenv("GOGC")
	defer debug.SetGCPercent(debug.SetGCPercent(60))
	for _, c := range []struct {
		live uint64
		want int
	}{{1, 60}, {64 << 20, 50}, {32 << 20, 50}, {128 << 20, 25}} {
		LimitGarbage(1<<20, c.live)
		if got := debug.SetGCPercent(60); got != c.want {
			t.Errorf("%d bytes: %d%%, want %d%%", c.live, got, c.want)
		}
		debug.SetGCPercent(min(c.want, 60))
	}
	t.Setenv("GOGC", "60")
	debug.SetGCPercent(60)
	if LimitGarbage(1<<20, 1<<40); debug.SetGCPercent(60) != 60 {
		t.Error("GOGC in the environment does not count")
	}
}

// What was used before is given back where the vectors are large.
func TestFrugalCollects(t *testing.T) {
	t.Setenv("GOGC", "")
	_ = os.Unsetenv("GOGC")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	const size = 64 << 20
	used := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	runtime.GC()
	before := used()
	left = make([]byte, size)
	runtime.GC() // the next one would wait for more than this
	runtime.KeepAlive(left)
	left = nil
	if LimitGarbage(leastGarbage+1, 1<<40); used() > before+size/2 {
		t.Error("it is still there")
	}
}

var left []byte // so that it is made on the heap
