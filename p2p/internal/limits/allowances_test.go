package limits

import (
	"errors"
	"testing"
	"time"
)

// TestTurnsOfARelay has peers take turns of a relay at times that are given.
func TestTurnsOfARelay(t *testing.T) {
	start := time.Now()
	all, guests := NewBucket(1000), NewBucket(500)
	for i, k := range []struct {
		after time.Duration // since the start
		guest bool
		bytes int
		err   error
		wait  time.Duration // to a tenth of a second
	}{
		{0, true, 500, nil, 0},
		{0, true, 500, nil, 900 * time.Millisecond},
		{0, false, 1000, nil, 0},
		{0, false, 1000, nil, 900 * time.Millisecond},
		{0, false, 11_000, nil, 1900 * time.Millisecond},
		{0, false, 1, ErrBusy, 0},
		{0, true, 1, nil, 1900 * time.Millisecond},
		{time.Minute, false, 1000, nil, 0},
	} {
		turn := all.TurnSoon
		if k.guest {
			turn = guests.TurnSoon
		}
		if wait, err := turn(k.bytes, start.Add(k.after)); !errors.Is(err, k.err) ||
			(wait-k.wait).Abs() > 100*time.Millisecond {
			t.Errorf("%d: %v, wait %s; want %v, %s", i, err, wait, k.err, k.wait)
		}
	}
}
