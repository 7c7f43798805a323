package sources

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Source is what one place says of settings.
type Source struct {
	name   string           // of a file; empty: the environment
	values map[string]Entry // by key
}

// Entry is one setting as a source gives it.
type Entry struct {
	Key   string
	Line  int // where it stands in a file, from 1
	Value any // as a decoder made it
}

// String is the value in one line.
func (e Entry) String() string { return text(e.Value) }

// text is a value as a flag takes it, and a list with commas.
func text(value any) string {
	switch v := value.(type) {
	case float64:
		digits := strconv.FormatFloat(v, 'g', -1, 64)
		if strings.Trim(digits, "-0123456789") == "" {
			digits += ".0" // no whole number, as it was not written as one
		}
		return digits
	case []any:
		texts := make([]string, len(v))
		for i, element := range v {
			texts[i] = text(element)
		}
		return strings.Join(texts, ", ")
	}
	return fmt.Sprint(value)
}

// fault is why a value can be no flag's; "" if it can.
func fault(value any) string {
	switch v := value.(type) {
	case string, bool, int64, float64:
		return ""
	case map[string]any, []map[string]any:
		return "settings are flat: it cannot be a table"
	case []any:
		for _, element := range v {
			if _, nested := element.([]any); nested {
				return "a list in a list"
			}
			if why := fault(element); why != "" {
				return why
			}
		}
		return ""
	}
	return "allowed: a text in quotes, a whole number, true or false, or a list of these"
}

// inOrder are settings by line.
func inOrder(values map[string]Entry) []Entry {
	return slices.SortedFunc(maps.Values(values), func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
}

// File reads a config file in TOML. Its own errors name the line and not the file; what it returns
// names both.
func File(path string) (Source, error) {
	s := Source{name: path}
	text, err := read(path, maxFile)
	if err == nil {
		s.values, err = parseTOML(text)
	}
	return s, err
}

// place is what stands before a value in an error.
func (s Source) place(key string) string {
	if s.name == "" {
		return Variable(key) + "="
	}
	return s.name + ": " + key + " = "
}

// check says which keys are no settings and which values can be none. Others may have variables
// with the same prefix.
func (s Source) check(known Known) (errs []error) {
	if s.name == "" {
		return nil
	}
	for _, e := range inOrder(s.values) {
		why := ": " + fault(e.Value)
		switch {
		case e.Key == ConfigFlag:
			why = ": a config file cannot name another one: leave it out"
		case !known.has(e.Key):
			why = " is no setting: p2pdiloco join --help-all lists them; more of a run's own goes into the --spec file"
		case why == ": ":
			continue
		}
		errs = append(errs, fmt.Errorf("%s, line %d: %s%s", s.name, e.Line, printable(e.Key), why))
	}
	return errs
}
