package sources

import (
	"errors"
	"strconv"

	"github.com/spf13/pflag"
)

// Fault is a value that a flag must not have. Its text is that of a command line; Explain finds the words of another source.
type Fault struct {
	Flag  string
	Value string // empty: it is not about one value
	Why   string
}

func (f *Fault) Error() string { return f.as("--" + f.Flag + " " + printable(f.Value)) }

func (f *Fault) as(given string) string { return given + ": " + f.Why }

// Explain puts the faults in an error, alone or joined, in the words of the sources that the flags of fs have their values from.
func Explain(fs *pflag.FlagSet, err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, Explain(fs, e))
		}
		return errors.Join(all...)
	}
	if fault, ok := err.(*Fault); ok { // a wrapped one has its words
		return errors.New(fault.as(Given(fs, fault.Flag, fault.Value)))
	}
	if inner := errors.Unwrap(err); inner != nil && inner.Error() == err.Error() { // a mark without words
		return Explain(fs, inner)
	}
	return err
}

// Why says in plain words what a flag's parser has against a value.
func Why(f *pflag.Flag, err error) string {
	var number *strconv.NumError
	switch {
	case f.Value.Type() == "bool":
		return "allowed: true or false"
	case f.Value.Type() == "float64":
		return "allowed: a number"
	case f.Value.Type() == "duration":
		return "allowed: a duration like 90s, 10m or 1h30m"
	case errors.As(err, &number):
		return "allowed: a whole number, 0 or above"
	}
	return err.Error()
}
