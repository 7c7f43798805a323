package sources

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Source is what one place says of settings.
type Source struct {
	closed bool                    // whether a key that no flag has is an error
	isFile bool                    // a config file
	prefix func(key string) string // what stands before a value in an error
	at     func(line int) string   // how an error names a line
	values map[string]Value        // by key
}

// Value is one setting as a source gives it.
type Value struct {
	Key   string
	Line  int      // where it stands in a file, from 1
	Texts []string // one, or the elements of a list
	List  bool
	Kind  Kind   // of the text, or of all elements
	Fault string // why it can be no flag's value

	split bool // the text may be the elements of a list
	null  bool // given as not given
}

// Kind is how a text was written in a file.
type Kind int

// Kinds of texts. The zero value is any other.
const (
	Text  Kind = iota + 1 // in quotes
	Whole                 // a whole number
	// a decimal without quotes: its digits may not be those that were written
	Decimal
)

func (v Value) String() string { return strings.Join(v.Texts, ", ") }

// inOrder are values by line.
func inOrder(values map[string]Value) []Value {
	return slices.SortedFunc(maps.Values(values), func(a, b Value) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
}

// Keys lists the keys that have a value, sorted.
func (s Source) Keys() (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(s.values)) {
		if !s.values[key].null {
			keys = append(keys, key)
		}
	}
	return keys
}

// Without is the source less some keys.
func (s Source) Without(keys ...string) Source {
	s.values = maps.Clone(s.values)
	maps.DeleteFunc(s.values, func(key string, _ Value) bool { return slices.Contains(keys, key) })
	return s
}

// check says which keys are no settings and which values can be none.
func (s Source) check(known Known) (errs []error) {
	if !s.closed {
		return nil
	}
	for _, v := range inOrder(s.values) {
		why := ": " + v.Fault
		switch {
		case v.Key == ConfigFlag && s.isFile && !v.null:
			why = ": a config file cannot name another one: leave it out"
		case !known.has(v.Key):
			why = " is no setting" + known.advice(v.Key)
		case v.Fault == "":
			continue
		}
		errs = append(errs, fmt.Errorf("%s%s%s", s.at(v.Line), printable(v.Key), why))
	}
	return errs
}

const maxShown = 120 // bytes of a value in an error

// printable is a text that may stand in a line of an error.
func printable(s string) string {
	cut := ""
	if len(s) > maxShown {
		s, cut = strings.ToValidUTF8(s[:maxShown], ""), "…"
	}
	if quoted := fmt.Sprintf("%q", s); s == "" || quoted != `"`+s+`"` {
		return quoted + cut
	}
	return s + cut
}
