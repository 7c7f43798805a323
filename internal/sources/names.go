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

// Known are the names of all flags that any command has.
type Known map[string]bool

// Add adds the flags of a set, but for those that only the command line can give.
func (k Known) Add(fs *pflag.FlagSet) {
	fs.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(onlyTyped, f.Name) {
			k[f.Name] = true
		}
	})
}

// onlyTyped are flags that only the command line can give.
var onlyTyped = []string{"help", "help-all", "version"}

func (k Known) has(key string) bool { return k[Flag(key)] && !strings.Contains(key, "-") }
