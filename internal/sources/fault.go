package sources

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Fault is a value that a flag must not have. Its text is that of a command line; Explain finds the
// words of another source.
type Fault struct {
	Flag  string
	Value string // empty: it is not about one value
	Why   string
}

// Faultf makes a Fault.
func Faultf(flag string, value any, format string, args ...any) error {
	if list, ok := value.(pflag.SliceValue); ok {
		value = strings.Join(list.GetSlice(), ",")
	}
	return &Fault{Flag: flag, Value: fmt.Sprint(value), Why: fmt.Sprintf(format, args...)}
}

// Faults are all that is wrong with some flags.
type Faults []error

// Add adds a fault, if there is one.
func (f *Faults) Add(wrong bool, flag string, value any, format string, args ...any) {
	if wrong {
		*f = append(*f, Faultf(flag, value, format, args...))
	}
}

func (f *Fault) Error() string { return "--" + f.Flag + " " + printable(f.Value) + ": " + f.Why }

// Explain puts the faults in an error, alone or joined, in the words of the sources that the flags
// of fs have their values from.
func Explain(fs *pflag.FlagSet, err error) error {
	switch e := err.(type) { // a wrapped fault has its words
	case interface{ Unwrap() []error }:
		var all []error
		for _, one := range e.Unwrap() {
			all = append(all, Explain(fs, one))
		}
		return errors.Join(all...)
	case *Fault:
		return errors.New(Given(fs, e.Flag, e.Value) + ": " + e.Why)
	}
	// a mark without words
	if inner := errors.Unwrap(err); inner != nil && inner.Error() == err.Error() {
		return Explain(fs, inner)
	}
	return err
}

// Why says in plain words what a flag's parser has against a value.
func Why(f *pflag.Flag, err error) string {
	switch f.Value.Type() {
	case "bool":
		return "allowed: true or false"
	case "float64":
		return "allowed: a number"
	case "duration":
		return "allowed: a duration like 90s, 10m or 1h30m"
	}
	if _, number := errors.AsType[*strconv.NumError](err); number {
		return "allowed: a whole number, 0 or above"
	}
	return err.Error()
}

const maxShown = 120 // bytes of a value in an error

// printable is a text that may stand in a line of an error.
func printable(s string) string {
	cut := ""
	if len(s) > maxShown {
		s, cut = strings.ToValidUTF8(s[:maxShown], ""), "…"
	}
	if quoted := strconv.Quote(s); s == "" || quoted != `"`+s+`"` {
		return quoted + cut
	}
	return s + cut
}
