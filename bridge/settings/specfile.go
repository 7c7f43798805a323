package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/spec"
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
	values, err := sources.ReadTOML(path, maxSpecFile)
	if err != nil {
		return run, fmt.Errorf("run spec %s: %w", path, err)
	}
	var errs []error
	for _, v := range values {
		if why := setField(&run, v); why != "" {
			errs = append(errs, fmt.Errorf("run spec %s: line %d: %s", path, v.Line, why))
		}
	}
	return run, errors.Join(errs...)
}

// setField sets the field of a spec that a line of a file gives, or says what is wrong with it.
func setField(run *spec.Spec, v sources.Value) (why string) {
	table := spec.Table()
	i := slices.IndexFunc(table, func(f spec.Field) bool { return strings.EqualFold(f.Name, v.Key) })
	if i < 0 {
		names := make([]string, len(table))
		for i, f := range table {
			names[i] = f.Name
		}
		return fmt.Sprintf("unknown key %s: allowed: %s", v.Key, strings.Join(names, ", "))
	}
	text := strings.Join(v.Texts, ",")
	refused := func(allowed string) string { return fmt.Sprintf("%s = %s: allowed: %s", v.Key, v, allowed) }
	switch field := table[i].At(run).(type) {
	case *string:
		if v.Kind != sources.Text || v.List {
			return refused(`a text in quotes, also for decimals, like "0.7"`)
		}
	case *uint64, *[]uint64:
		if _, many := field.(*[]uint64); v.Kind != sources.Whole && text != "" || many != v.List || v.Fault != "" {
			return refused(map[bool]string{false: "a whole number", true: "a list of whole numbers"}[many])
		}
	}
	if strings.Contains(text, "-") && v.Kind == sources.Whole {
		return v.Key + " is negative: allowed: whole numbers above 0"
	}
	if err := table[i].Set(run, text); err != nil || table[i].Text(*run) == "" {
		return v.Key + " is given, but empty or 0: leave it out to adopt the run's value"
	}
	return ""
}
