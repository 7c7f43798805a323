package bench

import "fmt"

// Seconds is a time for people.
func Seconds(s float64) string {
	if s < 1 {
		return fmt.Sprintf("%.1f ms", 1000*s)
	}
	return fmt.Sprintf("%.2f s", s)
}
