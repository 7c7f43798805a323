package modes

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Point is how good the anchor was after a round.
type Point struct {
	Round   uint64  `json:"round"`   // in mode streaming: slot
	Loss    float64 `json:"loss"`    // held-out, nats per token
	Seconds float64 `json:"seconds"` // since the first inner steps; 0 if steps are not paced
	// that all peers together had trained on, as far as they had said
	Tokens uint64 `json:"tokens"`
}

// curveOf joins the measurements of the peers: the first of each round, because all measure the
// same model on the same text. begun is when the last peer was ready to train.
func curveOf(peers []*peer) (begun time.Time, curve []Point) {
	var all []measurement
	for _, p := range peers {
		if len(p.measured) == 0 {
			continue
		}
		if first := p.measured[0].at; first.After(begun) {
			begun = first
		}
		all = append(all, p.measured...)
	}
	slices.SortStableFunc(all, func(a, b measurement) int { return a.at.Compare(b.at) })
	tokens, seen := uint64(0), map[uint64]bool{}
	for _, m := range all {
		tokens += m.tokens
		if m.loss == 0 || seen[m.round] {
			continue
		}
		seen[m.round] = true
		curve = append(curve, Point{m.round, m.loss, max(0, m.at.Sub(begun).Seconds()), tokens})
	}
	slices.SortFunc(curve, func(a, b Point) int { return cmp.Compare(a.Round, b.Round) })
	return begun, curve
}

// lossAt is the last loss that was reached with at most so many tokens.
func lossAt(curve []Point, tokens uint64) float64 {
	loss := 0.0
	for i, p := range curve {
		if i == 0 || p.Tokens <= tokens {
			loss = p.Loss
		}
	}
	return loss
}

// settled is a curve whose losses are medians of the newest three; at the start one of them counts
// twice.
func settled(curve []Point) []Point {
	out := slices.Clone(curve)
	for i := range out {
		last := []float64{curve[i].Loss, curve[max(i-1, 0)].Loss, curve[max(i-2, 0)].Loss}
		slices.Sort(last)
		out[i].Loss = last[1]
	}
	return out
}

// lowest is the least loss of a curve.
func lowest(curve []Point) float64 {
	return slices.MinFunc(curve, func(a, b Point) int { return cmp.Compare(a.Loss, b.Loss) }).Loss
}

// timeTo is when a curve first came down to a loss, between two rounds in proportion.
func timeTo(curve []Point, loss float64) (seconds float64, ok bool) {
	for i, p := range curve {
		if p.Loss > loss {
			continue
		}
		if i == 0 {
			return p.Seconds, true
		}
		before := curve[i-1]
		return before.Seconds + (p.Seconds-before.Seconds)*(before.Loss-loss)/(before.Loss-p.Loss), true
	}
	return 0, false
}

// at is how much had been sent at a moment, between two samples in proportion.
func at(s []sample, t time.Time) float64 {
	i := sort.Search(len(s), func(i int) bool { return !s[i].at.Before(t) })
	switch {
	case len(s) == 0:
		return 0
	case i == 0:
		return s[0].bytes
	case i == len(s):
		return s[i-1].bytes
	}
	a, b := s[i-1], s[i]
	return a.bytes + (b.bytes-a.bytes)*float64(t.Sub(a.at))/float64(b.at.Sub(a.at))
}

// busiest is the most that was sent within a window, all of it after begun; 0 in a window of 0.
// Windows end at samples.
func busiest(s []sample, begun time.Time, window time.Duration) (most float64) {
	for _, x := range s {
		from := x.at.Add(-window)
		if from.Before(begun) {
			from = begun
		}
		if x.at.After(from) {
			most = max(most, x.bytes-at(s, from))
		}
	}
	return most
}
