package modesbench

import (
	"sort"
	"time"
)

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
