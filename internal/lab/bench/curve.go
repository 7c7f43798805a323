package bench

import (
	"cmp"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// point is how good the anchor was after a round.
type point struct {
	round   uint64  // in mode streaming: slot
	loss    float64 // held-out, nats per token
	seconds float64 // since the first inner steps
	tokens  uint64  // that all peers had trained on, as far as they had said
}

// curveOf joins what trainers reported: the first peer's losses, because all have the same model.
// begun is when the last peer was ready to train.
func curveOf(peers []*measuredPeer) (begun time.Time, curve []point) {
	var all []eventlog.Line
	for i, p := range peers {
		if len(p.measured) > 0 && p.measured[0].Time.After(begun) {
			begun = p.measured[0].Time
		}
		for _, m := range p.measured {
			if i > 0 {
				m.Loss = 0
			}
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b eventlog.Line) int { return a.Time.Compare(b.Time) })
	tokens, seen := uint64(0), map[uint64]bool{}
	for _, m := range all {
		tokens += m.Tokens
		if m.Loss == 0 || seen[m.Round] {
			continue
		}
		seen[m.Round] = true
		curve = append(curve, point{m.Round, m.Loss, max(0, m.Time.Sub(begun).Seconds()), tokens})
	}
	slices.SortFunc(curve, func(a, b point) int { return cmp.Compare(a.round, b.round) })
	return begun, curve
}

// lossAt is the last loss that was reached with at most so many tokens.
func lossAt(curve []point, tokens uint64) float64 {
	loss := 0.0
	for i, p := range curve {
		if i == 0 || p.tokens <= tokens {
			loss = p.loss
		}
	}
	return loss
}

// race is the time that a curve takes to the lowest loss that both come to, over another's. Losses
// are medians of the newest three rounds' (at the start one of them counts twice): of one round's,
// the lowest is chance.
func race(curve, other []point) (ratio float64, ok bool) {
	if len(curve) == 0 || len(other) == 0 {
		return 0, false
	}
	// how far a model came down, and when
	descent := func(curve []point) (s []reading, lowest float64) {
		lowest = curve[0].loss
		for i := range curve {
			loss := Median([]float64{curve[i].loss, curve[max(i-1, 0)].loss, curve[max(i-2, 0)].loss})
			s = append(s, reading{-loss, curve[i].seconds})
			lowest = min(lowest, loss)
		}
		return s, lowest
	}
	mine, a := descent(curve)
	theirs, b := descent(other)
	target := -max(a, b)
	return valueAt(mine, target) / valueAt(theirs, target), valueAt(theirs, target) > 0
}

// reading is what y was at a moment x, such as the bytes that had been sent, and the second.
type reading struct{ x, y float64 }

// valueAt is y when x is first reached, between two samples in proportion.
func valueAt(s []reading, x float64) float64 {
	for i, b := range s {
		if b.x < x {
			continue
		}
		if i == 0 {
			return b.y
		}
		a := s[i-1]
		return a.y + (b.y-a.y)*(x-a.x)/(b.x-a.x)
	}
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].y
}

// busiest is the most that was sent within a window of seconds, all of it after begun; 0 in a
// window of 0. Windows end at samples.
func busiest(s []reading, begun, window float64) (most float64) {
	for _, b := range s {
		if b.x > begun && window > 0 {
			most = max(most, b.y-valueAt(s, max(b.x-window, begun)))
		}
	}
	return most
}
