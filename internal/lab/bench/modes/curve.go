package modes

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// point is how good the anchor was after a round.
type point struct {
	round   uint64  // in mode streaming: slot
	loss    float64 // held-out, nats per token
	seconds float64 // since the first inner steps
	tokens  uint64  // that all peers together had trained on, as far as they had said
}

// curveOf joins the measurements of the peers: the first of each round, because all measure the
// same model on the same text. begun is when the last peer was ready to train.
func curveOf(peers []*peer) (begun time.Time, curve []point) {
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
		curve = append(curve, point{m.round, m.loss, max(0, m.at.Sub(begun).Seconds()), tokens})
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

// settled is a curve whose losses are medians of the newest three; at the start one of them counts
// twice.
func settled(curve []point) []point {
	out := slices.Clone(curve)
	for i := range out {
		last := []float64{curve[i].loss, curve[max(i-1, 0)].loss, curve[max(i-2, 0)].loss}
		slices.Sort(last)
		out[i].loss = last[1]
	}
	return out
}

// race is the time that a curve takes to the lowest loss that both come to, over another's. Losses
// are medians of the newest three rounds': of one round's, the lowest is chance.
func race(curve, other []point) (ratio float64, ok bool) {
	if len(other) == 0 {
		return 0, false
	}
	curve, other = settled(curve), settled(other)
	byLoss := func(a, b point) int { return cmp.Compare(a.loss, b.loss) }
	target := max(slices.MinFunc(curve, byLoss).loss, slices.MinFunc(other, byLoss).loss)
	mine, _ := timeTo(curve, target)
	theirs, _ := timeTo(other, target)
	return mine / theirs, theirs > 0
}

// timeTo is when a curve first came down to a loss, between two rounds in proportion.
func timeTo(curve []point, loss float64) (seconds float64, ok bool) {
	for i, p := range curve {
		if p.loss > loss {
			continue
		}
		if i == 0 {
			return p.seconds, true
		}
		before := curve[i-1]
		return before.seconds + (p.seconds-before.seconds)*(before.loss-loss)/(before.loss-p.loss), true
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
