package sources

import (
	"errors"

	"github.com/spf13/pflag"
)

// Fault is a value that a flag must not have. Its text is that of a command line; Explain finds the
// words of another source.
type Fault struct {
	Flag  string
	Value string // empty: it is not about one value
	Why   string
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
