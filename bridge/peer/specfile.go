package peer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

const maxSpecFile = 1 << 20 // bytes

// readSpec reads a run spec from a TOML file: the fields of the spec, one a line, none of them
// required. It does not Validate the values. Its errors name the file, the line and the key.
//
//	name = "my-run"
//	rounds = 200
//	outer_lr = "0.7" # decimals are strings: every peer must read the same digits
//	discount = [1000, 500]
func readSpec(path string) (run spec.Spec, err error) {
	entries, err := sources.ReadTOML(path, maxSpecFile)
	if err != nil {
		return run, fmt.Errorf("run spec %s: %w", path, err)
	}
	var errs []error
	for _, e := range entries {
		if why := setField(&run, e); why != "" {
			errs = append(errs, fmt.Errorf("run spec %s: line %d: %s", path, e.Line, why))
		}
	}
	return run, errors.Join(errs...)
}

// setField sets the field of a spec that a line of a file gives, or says what is wrong with it.
func setField(run *spec.Spec, e sources.Entry) (why string) {
	table := spec.Table()
	i := slices.IndexFunc(table, func(f spec.Field) bool { return strings.EqualFold(f.Name, e.Key) })
	if i < 0 {
		names := make([]string, len(table))
		for i, f := range table {
			names[i] = f.Name
		}
		return fmt.Sprintf("unknown key %s: allowed: %s", e.Key, strings.Join(names, ", "))
	}
	field, text := table[i], strings.ReplaceAll(e.String(), ", ", ",")
	refused := func(allowed string) string { return fmt.Sprintf("%s = %s: allowed: %s", e.Key, e, allowed) }
	ok, allowed := false, ""
	switch field.At(run).(type) {
	case *string:
		text, ok = e.Value.(string)
		allowed = `a text in quotes, also for decimals, like "0.7"`
	case *uint64:
		_, ok = e.Value.(int64)
		allowed = "a whole number"
	case *[]uint64:
		ok, allowed = text == "" || listOf[int64](e.Value), "a list of whole numbers"
	case *time.Duration:
		text, ok = e.Value.(string)
		allowed = `a duration in quotes, like "90m"`
	case *[]trainer.PeerID:
		ok, allowed = listOf[string](e.Value), "a list of peer IDs, in quotes"
	}
	if !ok {
		return refused(allowed)
	}
	if err := field.Set(run, text); err != nil {
		switch field.At(run).(type) {
		case *[]trainer.PeerID:
			return e.Key + ": " + err.Error()
		case *time.Duration:
			return refused(`a duration, like "90m"`)
		}
		return e.Key + " is negative: allowed: whole numbers above 0"
	}
	if field.Text(*run) == "" {
		return e.Key + " is given, but empty or 0: leave it out to adopt the run's value"
	}
	return ""
}

// listOf says whether a value is a list of such elements.
func listOf[T any](value any) bool {
	list, ok := value.([]any)
	return ok && !slices.ContainsFunc(list, func(element any) bool {
		_, is := element.(T)
		return !is
	})
}
