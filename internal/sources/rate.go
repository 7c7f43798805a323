package sources

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Rate is bits a second; as a flag a number with kbit, mbit or gbit behind it.
type Rate int64

var rateUnits = []struct {
	suffix string
	bits   float64
}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}}

const maxRate = 100e9

// Set reads a rate.
func (r *Rate) Set(s string) error {
	for _, u := range rateUnits {
		text, found := strings.CutSuffix(s, u.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseFloat(text, 64)
		bits := math.Round(n * u.bits)
		if err == nil && bits >= 1000 && bits <= maxRate {
			*r = Rate(bits)
			return nil
		}
	}
	return errors.New("allowed: 1kbit to 100gbit, such as 20mbit")
}

func (r Rate) String() string {
	if r == 0 {
		return ""
	}
	for _, u := range rateUnits {
		if float64(r) >= u.bits {
			return strconv.FormatFloat(float64(r)/u.bits, 'f', -1, 64) + u.suffix
		}
	}
	return strconv.FormatInt(int64(r), 10)
}

// Type is what help calls the value.
func (r Rate) Type() string { return "rate" }
