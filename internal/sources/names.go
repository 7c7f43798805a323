package sources

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Prefix begins the names of all variables that are read.
const Prefix = "P2PDILOCO_"

// testPrefix begins those that are for tests, and are no settings.
const testPrefix = Prefix + "TEST_"

// testLevel is what package testutil reads.
const testLevel = Prefix + "TEST="

// ConfigFlag is the flag that names a config file.
const ConfigFlag = "config"

// Variable is a flag's name in the environment.
func Variable(flag string) string { return Prefix + strings.ToUpper(Key(flag)) }

// Key is a flag's name in a file.
func Key(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// Flag is the flag of a key.
func Flag(key string) string { return strings.ReplaceAll(key, "_", "-") }

// Known are the names of all flags that any command has: true for those that may be suggested for a
// mistyped one.
type Known map[string]bool

// Add adds the flags of a set, but for those that only the command line can give.
func (k Known) Add(fs *pflag.FlagSet) {
	fs.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(onlyTyped, f.Name) {
			k[f.Name] = k[f.Name] || !f.Hidden
		}
	})
}

// onlyTyped are flags that only the command line can give.
var onlyTyped = []string{"help", "help-all", "version"}

func (k Known) has(key string) bool {
	_, ok := k[Flag(key)]
	return ok && !strings.Contains(key, "-")
}

// nearest is the flag that a mistyped key may mean, or "".
func (k Known) nearest(key string) string {
	var names []string
	for name, suggested := range k {
		if suggested {
			names = append(names, name)
		}
	}
	return Nearest(Flag(strings.ToLower(key)), names)
}

// advice follows a key that is no setting.
func (k Known) advice(key string) string {
	if near := k.nearest(key); near != "" {
		return ": did you mean " + Key(near) + "?"
	}
	if key == "name" { // as a spec file has it
		return ": did you mean run?"
	}
	return ": p2pdiloco join --help-all lists them; more of a run's own goes into the --spec file"
}

const (
	// how many letters a name may be off for another to be suggested; one in three at most
	maxTypos = 3
	maxTypo  = 64 // bytes of the longest name that is taken for a mistyped one
)

// Nearest is the one of names that is closest to a mistyped name, "" if none is close.
func Nearest(name string, names []string) (best string) {
	if len(name) > maxTypo {
		return ""
	}
	least := maxTypos + 1
	for _, candidate := range slices.Sorted(slices.Values(names)) {
		d := distance(name, candidate)
		begun := len(name) > 1 && strings.HasPrefix(candidate, name)
		if begun {
			d = min(d, 1)
		}
		if d < least && (begun || 3*d <= len(name)) {
			best, least = candidate, d
		}
	}
	return best
}

// distance is the least number of letters to insert, drop or replace to make b of a (Levenshtein
// 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := corner
			if a[i] != b[j] {
				replaced++
			}
			corner = row[j+1]
			row[j+1] = min(replaced, corner+1, row[j]+1)
		}
	}
	return row[len(b)]
}
