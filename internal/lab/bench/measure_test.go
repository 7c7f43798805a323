package bench

import (
	"math"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

var epoch = time.Unix(1000, 0)

func afterSeconds(seconds float64) time.Time {
	return epoch.Add(time.Duration(seconds * float64(time.Second)))
}

func told(seconds float64, round uint64, loss float64, tokens uint64) eventlog.Line {
	return eventlog.Line{Time: afterSeconds(seconds), Round: round, Loss: loss, Tokens: tokens}
}

// The first of two peers measures; the second is ready later, and its losses are of little text.
func TestCurve(t *testing.T) {
	begun, curve := curveOf([]*measuredPeer{
		{measured: []eventlog.Line{told(1, 0, 3, 0), told(6, 1, 2.5, 10), told(9, 2, 2, 10)}},
		{},
		{measured: []eventlog.Line{told(2, 0, 3.5, 0), told(5, 1, 2.6, 10), told(9.5, 2, 2.1, 10)}},
	})
	want := []point{{0, 3, 0, 0}, {1, 2.5, 4, 20}, {2, 2, 7, 30}}
	if !begun.Equal(afterSeconds(2)) || len(curve) != len(want) {
		t.Fatalf("from %v %+v", begun, curve)
	}
	for i, p := range curve {
		if p != want[i] {
			t.Errorf("point %d is %+v, want %+v", i, p, want[i])
		}
	}
	if _, none := curveOf([]*measuredPeer{{}, {measured: []eventlog.Line{told(1, 0, 0, 0)}}}); len(none) != 0 {
		t.Errorf("nobody measured, and there is %+v", none)
	}
}

func TestLossAtTokens(t *testing.T) {
	curve := []point{{loss: 3}, {loss: 2.5, tokens: 10}, {loss: 2, tokens: 20}, {loss: 1.9, tokens: 31}}
	for tokens, want := range map[uint64]float64{0: 3, 19: 2.5, 20: 2, 30: 2, 31: 1.9, math.MaxUint64: 1.9} {
		if got := lossAt(curve, tokens); got != want {
			t.Errorf("with %d tokens %v, want %v", tokens, got, want)
		}
	}
}

func TestAt(t *testing.T) {
	s := []reading{{-3, 0}, {-2.5, 10}, {-2.6, 20}, {-2, 30}}
	for x, want := range map[float64]float64{-3: 0, -4: 0, -2.75: 5, -2.5: 10, -2.3: 25, -2: 30, -1: 30} {
		if got := valueAt(s, x); math.Abs(got-want) > 1e-9 {
			t.Errorf("at %v: %v, want %v", x, got, want)
		}
	}
}

// TestRace: both come to 2, at 5 and 20 s; in the other race the row ends at 2.5, where the other
// is half-way from 15 to 20 s. One lucky round is not the lowest loss.
func TestRace(t *testing.T) {
	barrier := []point{{0, 3, 0, 0}, {1, 3, 10, 4}, {2, 2, 15, 8}, {3, 2, 20, 9}, {4, 1, 30, 9}}
	for _, c := range []struct {
		curve []point
		want  float64
	}{
		{[]point{{0, 3, 0, 0}, {1, 2, 2, 4}, {2, 2, 5, 8}}, 5. / 20},
		{[]point{{0, 3, 0, 0}, {1, 2.5, 2, 4}, {2, 2.5, 5, 8}}, 5. / 17.5},
	} {
		if got, ok := race(c.curve, barrier); !ok || math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v takes %v of the time, want %v", c.curve, got, c.want)
		}
	}
	if _, ok := race(barrier, nil); ok {
		t.Error("a race of one")
	}
}

// 100 bytes before anything is trained, then 80 within a tenth of a second, then 10 a second.
func TestBandwidth(t *testing.T) {
	s := []reading{{0, 0}, {1, 100}, {2, 100}, {2.1, 180}, {3.1, 190}, {4.1, 200}}
	for x, want := range map[float64]float64{-1: 0, 0.5: 50, 2: 100, 2.05: 140, 2.6: 185, 9: 200} {
		if got := valueAt(s, x); math.Abs(got-want) > 1e-6 {
			t.Errorf("at %v s %v, want %v", x, got, want)
		}
	}
	if got := busiest(s, 1, 1); math.Abs(got-80) > 1e-6 {
		t.Errorf("busiest second %v, want 80: what came before the first steps does not count", got)
	}
	if got := busiest(s, 3.1, 1); math.Abs(got-10) > 1e-6 {
		t.Errorf("busiest second at last %v, want 10", got)
	}
	if got := busiest(s, 1, 0); got != 0 {
		t.Errorf("within nothing %v", got)
	}
	c := ModesConfig{InnerSteps: 40, StepTime: 40 * time.Millisecond}
	if got := c.window(); got != .2 {
		t.Errorf("a window of %v s, want half of what 10 steps take", got)
	}
	if c.InnerSteps--; c.window() != 0 {
		t.Errorf("a window of %v s for samples every %v", c.window(), sampleEvery)
	}
	if got := busiest(nil, 0, 1); got != 0 || valueAt(nil, 0) != 0 {
		t.Errorf("of no samples %v", got)
	}
}
