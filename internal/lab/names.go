package lab

import "strings"

// Names is a list of names; as a flag and for people, with commas between them.
type Names[T ~string] []T

// Set reads a list, in place of an earlier one.
func (n *Names[T]) Set(s string) error {
	*n = nil
	for name := range strings.SplitSeq(s, ",") {
		if name = strings.TrimSpace(name); name != "" {
			*n = append(*n, T(name))
		}
	}
	return nil
}

func (n Names[T]) String() string {
	names := make([]string, len(n))
	for i, name := range n {
		names[i] = string(name)
	}
	return strings.Join(names, ",")
}

// Type is what help calls the value.
func (n Names[T]) Type() string { return "names" }
