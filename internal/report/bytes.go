package report

import "fmt"

// Bytes is a number of bytes for people, in decimal units.
func Bytes(n uint64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1000, 0
	for v >= 999.95 && unit < len(units)-1 {
		v, unit = v/1000, unit+1
	}
	return fmt.Sprintf("%.1f %s", v, units[unit])
}

var units = []string{"kB", "MB", "GB", "TB", "PB"}
