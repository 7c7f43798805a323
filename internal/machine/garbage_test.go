package machine

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestGCPercent(t *testing.T) {
	for d, want := range map[uint64]int{0: 100, 1 << 23: 100, 1<<23 + 1: 99, 1 << 24: 50, 1 << 25: 25, 1 << 40: 25} {
		if got := gcPercent(d); got != want {
			t.Errorf("%d elements: %d%%, want %d%%", d, got, want)
		}
	}
}

// A program that allows less garbage, or has its own GOGC, keeps that.
func TestFrugalAllowsNoMoreThanBefore(t *testing.T) {
	t.Setenv("GOGC", "")
	_ = os.Unsetenv("GOGC")
	defer debug.SetGCPercent(debug.SetGCPercent(60))
	for _, c := range []struct {
		elements uint64
		want     int
	}{{0, 60}, {1 << 24, 50}, {1 << 23, 50}, {1 << 40, 25}} {
		Frugal(c.elements)
		if got := debug.SetGCPercent(60); got != c.want {
			t.Errorf("%d elements: %d%%, want %d%%", c.elements, got, c.want)
		}
		debug.SetGCPercent(min(c.want, 60))
	}
	t.Setenv("GOGC", "60")
	debug.SetGCPercent(60)
	if Frugal(1 << 40); debug.SetGCPercent(60) != 60 {
		t.Error("GOGC in the environment does not count")
	}
}
