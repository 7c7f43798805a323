package sources

import (
	"slices"
	"strings"
)

// Environment is the variables with Prefix of an environment in os.Environ's form. One that is
// empty counts as not set.
func Environment(environ []string) Source {
	s := Source{values: make(map[string]Entry)}
	for _, v := range environ {
		name, text, _ := strings.Cut(v, "=")
		key, ours := strings.CutPrefix(name, Prefix)
		if key = strings.ToLower(key); ours && text != "" && Prefix+strings.ToUpper(key) == name {
			s.values[key] = Entry{Key: key, Value: text}
		}
	}
	return s
}

// Clean is an environment without settings: for child processes that get theirs as flags.
func Clean(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return strings.HasPrefix(v, Prefix) && !strings.HasPrefix(v, testPrefix) && !strings.HasPrefix(v, testLevel)
	})
}
