// Package specfile reads a run spec from a TOML file: the fields of p2pdiloco.Spec, one a line, none of them required.
//
//	name = "my-run"
//	rounds = 200
//	inner_steps = 100
//	outer_lr = "0.7" # decimals are strings: every peer must read the same digits
package specfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/p2pdiloco/p2pdiloco"
)

const maxFile = 1 << 20 // bytes

// Read reads the file at path. Its errors name the file, the line and the key, and say what is allowed.
func Read(path string) (p2pdiloco.Spec, error) {
	f, err := os.Open(path)
	if err != nil {
		return p2pdiloco.Spec{}, fmt.Errorf("run spec: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return p2pdiloco.Spec{}, fmt.Errorf("run spec: %w", err)
	}
	spec, err := Parse(b)
	if err != nil {
		return p2pdiloco.Spec{}, fmt.Errorf("run spec %s: %w", path, err)
	}
	return spec, nil
}

// Parse reads the text of a file. It does not Validate the values.
func Parse(text []byte) (p2pdiloco.Spec, error) {
	if len(text) > maxFile {
		return p2pdiloco.Spec{}, fmt.Errorf("more than %d bytes: that is no run spec", maxFile)
	}
	var spec p2pdiloco.Spec
	meta, err := toml.NewDecoder(bytes.NewReader(text)).Decode(&spec)
	if err != nil {
		return p2pdiloco.Spec{}, explain(err)
	}
	if err := errors.Join(unknown(text, meta), empty(text, meta, spec), negative(text)); err != nil {
		return p2pdiloco.Spec{}, err
	}
	return spec, nil
}

func unknown(text []byte, meta toml.MetaData) error {
	var errs []error
	for _, key := range meta.Undecoded() {
		errs = append(errs, fmt.Errorf("line %d: unknown key %s: allowed: %s", lineOf(text, key[0]), key, strings.Join(Keys(), ", ")))
	}
	return errors.Join(errs...)
}

// empty finds keys whose value would read as one that was not given.
func empty(text []byte, meta toml.MetaData, spec p2pdiloco.Spec) error {
	var errs []error
	given := spec.Fields()
	for _, key := range meta.Keys() {
		if name := strings.ToLower(key[0]); len(key) == 1 && slices.Contains(Keys(), name) && given[name] == "" {
			errs = append(errs, fmt.Errorf("line %d: %s is given, but empty or 0: leave it out to adopt the run's value", lineOf(text, key[0]), key))
		}
	}
	return errors.Join(errs...)
}

// negative finds numbers that the decoder would wrap around to huge ones.
func negative(text []byte) error {
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		return err
	}
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if isNegative(values[key]) {
			errs = append(errs, fmt.Errorf("line %d: %s is negative: allowed: whole numbers above 0", lineOf(text, key), key))
		}
	}
	return errors.Join(errs...)
}

func isNegative(v any) bool {
	switch v := v.(type) {
	case int64:
		return v < 0
	case []any:
		return slices.ContainsFunc(v, isNegative)
	}
	return false
}

// explain adds to the decoder's error, which has the line and the key, what a reader needs to mend it.
func explain(err error) error {
	if strings.Contains(err.Error(), "has type float64; destination has type string") {
		return fmt.Errorf(`%w: write decimals in quotes, like "0.7"`, err)
	}
	return err
}

// Keys lists the keys that a file may have.
func Keys() []string {
	var keys []string
	for f := range reflect.TypeFor[p2pdiloco.Spec]().Fields() {
		if tag := f.Tag.Get("toml"); tag != "-" {
			keys = append(keys, tag)
		}
	}
	return keys
}

// lineOf is the number of the first line that sets key or opens a table of that name; the decoder does not tell.
func lineOf(text []byte, key string) int {
	sets := regexp.MustCompile(`^[\s\[]*["']?` + regexp.QuoteMeta(key) + `["']?\s*[.=\]]`)
	for i, line := range bytes.Split(text, []byte{'\n'}) {
		if sets.Match(line) {
			return i + 1
		}
	}
	return 1
}
