package sources

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// annotation is under what a flag notes its source: what stands before a value in errors, and its
// rank.
const annotation = "p2pdiloco_source"

// Fill sets the flags of fs that were not given to what the sources say, the first one that knows a
// flag, and then the config file that the flag config names. It reports all faults at once.
func Fill(fs *pflag.FlagSet, known Known, from ...Source) error {
	var errs []error
	rank := len(from) + 1
	take := func(s Source) {
		errs = append(errs, s.check(known)...)
		fs.VisitAll(func(f *pflag.Flag) { errs = append(errs, s.fill(f, rank)) })
		rank--
	}
	for _, s := range from {
		take(s)
	}
	expand(fs)
	if config := fs.Lookup(ConfigFlag); config != nil && config.Value.String() != "" {
		s, err := File(config.Value.String())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", Given(fs, ConfigFlag, config.Value.String()), err))
		}
		take(s)
		expand(fs)
	}
	return errors.Join(errs...)
}

// expand takes ~ in paths for the user's home, which no shell has done of --init=~/m, of the
// environment and of a file.
func expand(fs *pflag.FlagSet) {
	home, err := os.UserHomeDir()
	fs.VisitAll(func(f *pflag.Flag) {
		rest, ok := strings.CutPrefix(f.Value.String(), "~/")
		if ok && err == nil && f.Changed {
			_ = f.Value.Set(filepath.Join(home, rest)) // it took a path before
		}
	})
}

// fill sets one flag that has no value yet. Its rank is higher the sooner the source is asked.
func (s Source) fill(f *pflag.Flag, rank int) error {
	key := Key(f.Name)
	e := s.values[key]
	if e.Value == nil || fault(e.Value) != "" || f.Changed || slices.Contains(onlyTyped, f.Name) {
		return nil
	}
	if f.Annotations == nil {
		f.Annotations = make(map[string][]string)
	}
	f.Annotations[annotation] = []string{s.place(key), strconv.Itoa(rank)}
	f.Changed = true // also where it is refused: once is enough
	if err := s.set(f.Value, e.Value); err != nil {
		return fmt.Errorf("%s%s: %s", s.place(key), printable(e.String()), Why(f, err))
	}
	return nil
}

// set gives a flag a value. The environment has a list in one text.
func (s Source) set(to pflag.Value, value any) error {
	list, many := to.(pflag.SliceValue)
	if many && s.name == "" {
		return list.Replace(split(text(value)))
	}
	elements, isList := value.([]any)
	if !isList {
		elements = []any{value}
	} else if !many {
		return errors.New("allowed: one value, not a list")
	}
	for _, e := range elements {
		// the digits of a decimal without quotes may not be those that were written
		if _, decimal := e.(float64); decimal && (many || to.Type() == "string") {
			return errors.New(`write decimals in quotes, like "0.7": every peer must read the same digits`)
		}
		if err := to.Set(text(e)); err != nil {
			return err
		}
	}
	return nil
}

// source is what a flag notes of its source; ok is false if it has its value from the command line,
// or none.
func source(f *pflag.Flag) (place string, rank int, ok bool) {
	if f == nil || len(f.Annotations[annotation]) != 2 {
		return "", 0, false
	}
	rank, _ = strconv.Atoi(f.Annotations[annotation][1]) // as fill wrote it
	return f.Annotations[annotation][0], rank, true
}

// Given is what a flag's value was given as: --rounds 5, P2PDILOCO_ROUNDS=5 or run.toml: rounds =
// 5.
func Given(fs *pflag.FlagSet, flag, value string) string {
	place, _, ok := source(fs.Lookup(flag))
	if !ok {
		place = "--" + flag + " "
	}
	return place + printable(value)
}

// commandLine is the rank of the command line: more than that of any other source.
const commandLine = 1 << 10

// Rank says how much a flag's source counts: 0 for a default, more for a source that wins over
// others, most for the command line.
func Rank(fs *pflag.FlagSet, flag string) int {
	f := fs.Lookup(flag)
	if f == nil || !f.Changed {
		return 0
	}
	if _, rank, ok := source(f); ok {
		return rank
	}
	return commandLine
}
