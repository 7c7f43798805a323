package round

import (
	"math"
	"testing"
	"time"
)

// What a peer goes by: its newest step time, and of a round cut short what it has seen of it.
func TestStepRate(t *testing.T) {
	var m stepRate
	if m.micros() != 0 {
		t.Error("a measure of nothing")
	}
	m.note(4, 40*time.Millisecond)
	m.note(4, 2*time.Second)
	m.note(0, time.Second)
	if m.micros() != 500_000 {
		t.Errorf("newest %d µs", m.micros())
	}
	m.progress(3)
	if m.cut(40, 8*time.Second); m.micros() != 2_000_000 {
		t.Errorf("3 steps and a part in 8 s: %d µs", m.micros())
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
