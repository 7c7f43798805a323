package sources

import "strings"

// Prefix begins the names of all variables that are read.
const Prefix = "P2PDILOCO_"

// testPrefix begins those that are for tests, and are no settings.
const testPrefix = Prefix + "TEST_"

// ConfigFlag is the flag that names a config file.
const ConfigFlag = "config"

// Variable is a flag's name in the environment.
func Variable(flag string) string { return Prefix + strings.ToUpper(Key(flag)) }

// Key is a flag's name in a file or an object.
func Key(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

func flagOf(key string) string { return strings.ReplaceAll(key, "_", "-") }

// Known are the names of all flags that any command has: true for those that may be suggested to who mistypes one.
type Known map[string]bool

func (k Known) has(key string) bool {
	_, ok := k[flagOf(key)]
	return ok && !strings.Contains(key, "-")
}

// nearest is the flag that who wrote key may have meant, or "".
func (k Known) nearest(key string) string {
	var names []string
	for name, suggested := range k {
		if suggested {
			names = append(names, name)
		}
	}
	return Nearest(flagOf(strings.ToLower(key)), names)
}
