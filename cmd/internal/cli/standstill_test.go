package cli

import (
	"testing"
	"time"
)

func TestStoodStill(t *testing.T) {
	for _, c := range []struct{ monotonic, wall, want time.Duration }{
		{time.Second, time.Second, 0},
		{4 * time.Second, 4 * time.Second, 0},
		{9 * time.Second, 9 * time.Second, 8 * time.Second}, // SIGSTOP
		{time.Second, time.Hour + time.Second, time.Hour},   // a lid
		{time.Second, -time.Hour, 0},                        // a clock that is put right
	} {
		if got := stoodStill(c.monotonic, c.wall); got != c.want {
			t.Errorf("%v, %v: %v, want %v", c.monotonic, c.wall, got, c.want)
		}
	}
}
