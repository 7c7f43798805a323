package sources

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
)

// annotation is under what a flag notes its source: what stands before a value in errors, and its
// rank.
const annotation = "p2pdiloco_source"

// Fill sets the flags of fs that were not given to what the sources say, the first one that knows a
// flag, and then the config file that the flag config names. It reports all faults at once.
func Fill(fs *pflag.FlagSet, known Known, from ...Source) error {
	var errs []error
	config := fs.Lookup(ConfigFlag)
	for i, s := range from {
		errs = append(errs, s.check(known)...)
		if config != nil {
			errs = append(errs, s.fill(config, len(from)-i+1))
		}
	}
	if config != nil && config.Value.String() != "" {
		s, err := ReadFile(config.Value.String())
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", Given(fs, ConfigFlag, config.Value.String()), err))
		}
		errs = append(errs, s.check(known)...)
		from = append(from, s.Without(ConfigFlag))
	}
	for i, s := range from {
		fs.VisitAll(func(f *pflag.Flag) { errs = append(errs, s.fill(f, len(from)-i)) })
	}
	return errors.Join(errs...)
}

// fill sets one flag that has no value yet. Its rank is higher the sooner the source is asked.
func (s Source) fill(f *pflag.Flag, rank int) error {
	v, ok := s.values[Key(f.Name)]
	// help and version are flags that only the command line can give
	if !ok || v.null || v.Fault != "" || f.Changed || f.Name == "help" || f.Name == "version" {
		return nil
	}
	if f.Annotations == nil {
		f.Annotations = make(map[string][]string)
	}
	f.Annotations[annotation] = []string{s.prefix(Key(f.Name)), strconv.Itoa(rank)}
	f.Changed = true // also where it is refused: once is enough
	if err := v.set(f.Value); err != nil {
		return fmt.Errorf("%s%s: %s", s.prefix(Key(f.Name)), printable(v.String()), Why(f, err))
	}
	return nil
}

func (v Value) set(to pflag.Value) error {
	texts := v.Texts
	list, many := to.(*List)
	switch {
	case many && v.split:
		texts = list.split(texts[0])
	case !many && v.List:
		return errors.New("allowed: one value, not a list")
	case v.Kind == Decimal && (many || to.Type() == "string"):
		return errors.New(`write decimals in quotes, like "0.7": every peer must read the same digits`)
	}
	for _, text := range texts {
		if err := to.Set(text); err != nil {
			return err
		}
	}
	return nil
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
	if number := (*strconv.NumError)(nil); errors.As(err, &number) {
		return "allowed: a whole number, 0 or above"
	}
	return err.Error()
}

// Given is what a flag's value was given as: --rounds 5, P2PDILOCO_ROUNDS=5 or run.toml: rounds =
// 5.
func Given(fs *pflag.FlagSet, flag, value string) string {
	if f := fs.Lookup(flag); f != nil && len(f.Annotations[annotation]) == 2 {
		return f.Annotations[annotation][0] + printable(value)
	}
	return "--" + flag + " " + printable(value)
}

// Rank says how much a flag's source counts: 0 for a default, more for a source that wins over
// others, most for the command line.
func Rank(fs *pflag.FlagSet, flag string) int {
	const commandLine = 1 << 10
	f := fs.Lookup(flag)
	switch {
	case f == nil || !f.Changed:
		return 0
	case len(f.Annotations[annotation]) == 2:
		rank, _ := strconv.Atoi(f.Annotations[annotation][1]) // as fill wrote it
		return rank
	}
	return commandLine
}
