package bench

import (
	"errors"
	"slices"
)

// noMPI is why OpenMPI cannot be measured. It is an errors.ErrUnsupported.
type noMPI string

func (e noMPI) Error() string      { return string(e) }
func (noMPI) Is(target error) bool { return target == errors.ErrUnsupported }

// Median is the median of x, of which there is at least one.
func Median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Quantile is the least value of x that no less than a share q of x is at or below. There is at
// least one.
func Quantile(x []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(x))
	for i, v := range s {
		if float64(i+1) >= q*float64(len(s)) {
			return v
		}
	}
	return s[len(s)-1]
}

// Round is one all-reduce.
type Round struct {
	Seconds float64 // of the slowest peer
	CPU     float64 // seconds, of all peers
	Sent    float64 // bytes, of all peers
}

// CPUPerGB is the CPU time for a GB that was sent.
func (r Round) CPUPerGB() float64 { return r.CPU / max(1, r.Sent) * 1e9 }
