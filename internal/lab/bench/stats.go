package bench

import "slices"

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
