package sources

import (
	"slices"
	"strings"
)

// variables are those with Prefix by their keys, the last one of a name.
func variables(environ []string) map[string]string {
	found := make(map[string]string)
	for _, v := range environ {
		if name, text, ok := strings.Cut(v, "="); ok && strings.HasPrefix(name, Prefix) &&
			strings.ToUpper(name) == name {
			found[strings.ToLower(name[len(Prefix):])] = text
		}
	}
	return found
}

// Clean is an environment without settings: for child processes that get theirs as flags.
func Clean(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		return strings.HasPrefix(v, Prefix) && !strings.HasPrefix(v, testPrefix) && !strings.HasPrefix(v, testLevel)
	})
}
