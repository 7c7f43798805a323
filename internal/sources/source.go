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
	file   string                  // path, if it is a file
	prefix func(key string) string // what stands before a value in an error
	at     func(line int) string   // how an error names a line
	values map[string]value        // by key
}

// value is one setting as a source gives it.
type value struct {
	texts []string // one, or the elements of a list
	list  bool
	split bool   // the text may be the elements of a list
	null  bool   // given as not given
	float bool   // its digits may not be those that were written
	fault string // why it can be no flag's value
	line  int
}

func (v value) String() string { return strings.Join(v.texts, ", ") }

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
	for _, key := range keys {
		delete(s.values, key)
	}
	return s
}

// check says which keys are no settings and which values can be none.
func (s Source) check(known Known) (errs []error) {
	for _, key := range slices.SortedFunc(maps.Keys(s.values), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.values[a].line, s.values[b].line), cmp.Compare(a, b))
	}) {
		v := s.values[key]
		switch {
		case !s.closed:
		case key == ConfigFlag && s.file != "" && !v.null:
			errs = append(errs, fmt.Errorf("%s%s: a config file cannot name another one: leave it out", s.at(v.line), key))
		case !known.has(key):
			errs = append(errs, fmt.Errorf("%s%s is no setting%s", s.at(v.line), printable(key), s.advice(known, key)))
		case v.fault != "":
			errs = append(errs, fmt.Errorf("%s%s: %s", s.at(v.line), key, v.fault))
		}
	}
	return errs
}

func (s Source) advice(known Known, key string) string {
	if near := known.nearest(key); near != "" {
		return ": did you mean " + Key(near) + "?"
	}
	if key == "name" { // as a spec file has it
		return ": did you mean run?"
	}
	return ": p2pdiloco join --help lists them; more of a run's own goes into the --spec file"
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
