package round

import (
	"math"
	"testing"
	"time"
)

// What a peer goes by: its newest step time in offers, the median of three for deadlines, and of a
// round cut short what it has seen of it.
func TestStepRate(t *testing.T) {
	var m stepRate
	if m.micros() != 0 || m.median() != 0 {
		t.Error("a measure of nothing")
	}
	for _, ms := range []int{10, 11, 500} {
		m.note(4, time.Duration(4*ms)*time.Millisecond)
	}
	m.note(0, time.Second)
	if m.micros() != 500_000 || m.median() != 11*time.Millisecond {
		t.Errorf("newest %d µs, median %v", m.micros(), m.median())
	}
	m.progress(3)
	if m.cut(40, 8*time.Second); m.micros() != 2_000_000 {
		t.Errorf("3 steps and a part in 8 s: %d µs", m.micros())
	}
	m.opened(5)
	// the last two: not known
	for slotNumber, want := range map[uint64]time.Duration{5: time.Hour, 6: 2 * time.Hour, 4: time.Hour, 7: time.Hour} {
		if got := m.left(slotNumber, time.Hour); got > want || got < want-time.Minute {
			t.Errorf("%v left for slot %d while slot 5 is open, want %v", got, slotNumber, want)
		}
	}
	m.begin()
	if m.cut(40, 8*time.Second); m.micros() != 200_000 {
		t.Errorf("at most 40 steps in 8 s: %d µs", m.micros())
	}
	if m.note(1, time.Nanosecond); m.micros() != 1 {
		t.Errorf("%d µs", m.micros())
	}
	if m.note(1, 100*time.Hour); m.micros() != math.MaxUint32 {
		t.Errorf("%d µs", m.micros())
	}
}
