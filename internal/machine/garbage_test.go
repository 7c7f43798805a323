package machine

import "testing"

func TestGCPercent(t *testing.T) {
	for d, want := range map[uint64]int{0: 100, 1 << 23: 100, 1<<23 + 1: 99, 1 << 24: 50, 1 << 25: 25, 1 << 40: 25} {
		if got := gcPercent(d); got != want {
			t.Errorf("%d elements: %d%%, want %d%%", d, got, want)
		}
	}
}
