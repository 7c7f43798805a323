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
	name   string // of a file or an object; empty: the environment
	isFile bool
	values map[string]Value // by key
}

// Value is one setting as a source gives it.
type Value struct {
	Key   string
	Line  int      // where it stands in a file, from 1
	Texts []string // one, or the elements of a list; none: it is null, as good as not given
	List  bool
	Kind  Kind   // of the text, or of all elements
	Fault string // why it can be no flag's value
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

func (v Value) isNull() bool { return len(v.Texts) == 0 && !v.List && v.Fault == "" }

// inOrder are values by line.
func inOrder(values map[string]Value) []Value {
	return slices.SortedFunc(maps.Values(values), func(a, b Value) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
}

// Environment is the variables with Prefix of an environment in os.Environ's form.
func Environment(environ []string) Source {
	s := Source{values: make(map[string]Value)}
	for key, text := range variables(environ) {
		if text != "" {
			s.values[key] = Value{Key: key, Texts: []string{text}}
		}
	}
	return s
}

// File reads a config file: JSON if its name ends in .json, else TOML. Its own errors name the line
// and not the file; what it returns names both.
func File(path string) (Source, error) {
	s := Source{name: path, isFile: true}
	text, err := read(path, maxFile)
	if err == nil {
		s.values, err = parse(path, text)
	}
	return s, err
}

// Object reads a JSON object that a program was given. name is what errors call it.
func Object(text []byte, name string) (Source, error) {
	values, err := parseJSON(text)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return Source{name: name, values: values}, err
}

// Has says whether a source gives a setting.
func (s Source) Has(key string) bool {
	v, ok := s.values[key]
	return ok && !v.isNull()
}

// Drop takes a key out of the source.
func (s Source) Drop(key string) { delete(s.values, key) }

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
	for _, v := range inOrder(s.values) {
		why := ": " + v.Fault
		switch {
		case v.Key == ConfigFlag && s.isFile && !v.isNull():
			why = ": a config file cannot name another one: leave it out"
		case !known.has(v.Key):
			why = " is no setting" + known.advice(v.Key)
		case v.Fault == "":
			continue
		}
		at := s.name
		if s.isFile {
			at += fmt.Sprintf(", line %d", v.Line)
		}
		errs = append(errs, fmt.Errorf("%s: %s%s", at, printable(v.Key), why))
	}
	return errs
}
