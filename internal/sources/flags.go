package sources

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// variable is the value of a flag that a variable of any type holds.
type variable[T any] struct {
	at   *T
	kind string
	read func(text string) (T, error)
	show func(T) string
}

// Var makes a variable the value of a flag. read reads what a user gives, show writes it as a user
// would, and help calls it kind.
func Var[T any](at *T, kind string, read func(text string) (T, error), show func(T) string) pflag.Value {
	return &variable[T]{at, kind, read, show}
}

// Set leaves the variable as it is if the text cannot be read.
func (v *variable[T]) Set(text string) error {
	read, err := v.read(text)
	if err == nil {
		*v.at = read
	}
	return err
}

func (v *variable[T]) String() string { return v.show(*v.at) }
func (v *variable[T]) Type() string   { return v.kind }

// OneOf makes a variable the value of a flag that has one of a few texts.
func OneOf[T ~string](at *T, kind string, allowed []string) pflag.Value {
	read := func(text string) (T, error) {
		if !slices.Contains(allowed, text) {
			return "", errors.New("allowed: " + strings.Join(allowed, ", "))
		}
		return T(text), nil
	}
	return Var(at, kind, read, Plain)
}

// Plain shows a text as it is.
func Plain[T ~string](v T) string { return string(v) }

// split is the elements of a list in one text: without white space around them, and without empty
// ones.
func split(text string) (elements []string) {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			elements = append(elements, part)
		}
	}
	return elements
}

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
		n, err := strconv.ParseFloat(text, 64)
		if bits := math.Round(n * u.bits); found && err == nil && bits >= 1000 && bits <= maxRate {
			*r = Rate(bits)
			return nil
		}
	}
	return errors.New("allowed: 1kbit to 100gbit, such as 20mbit")
}

func (r Rate) String() string {
	for _, u := range rateUnits {
		if float64(r) >= u.bits {
			return strconv.FormatFloat(float64(r)/u.bits, 'f', -1, 64) + u.suffix
		}
	}
	if r == 0 {
		return ""
	}
	return strconv.FormatInt(int64(r), 10)
}

// Type is what help calls the value.
func (r Rate) Type() string { return "rate" }
