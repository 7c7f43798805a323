package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// NewSpaces makes namespaces beside those of a lab, without a network, for hosts behind a node.
// Clean removes those of a crashed process by this name, and NewSpaces cleans first.
func NewSpaces(ctx context.Context, name string, n int) (spaces []Space, err error) {
	defer func() {
		if err == nil {
			return
		}
		for _, s := range spaces {
			err = errors.Join(err, s.Remove())
		}
		spaces = nil
	}()
	if !nameForm.MatchString(name) {
		return nil, fmt.Errorf("lab: name %q: a lower-case letter and up to 15 letters or digits", name)
	}
	if _, err := Clean(name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(namespaces, 0o755); err != nil {
		return nil, fmt.Errorf("lab: %w", explain(err))
	}
	if err := shareNamespaces(); err != nil {
		return nil, fmt.Errorf("lab: %s: %w", namespaces, explain(err))
	}
	number := labs.Add(1)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return spaces, err
		}
		s := Space(spaceName(name, number, i))
		if _, err := makeNamespace(string(s), func() (*tun, error) { return nil, nil }); err != nil {
			return spaces, fmt.Errorf("lab: namespace %s: %w", s, explain(err))
		}
		spaces = append(spaces, s)
	}
	return spaces, nil
}

func spaceName(name string, number int64, i int) string {
	return fmt.Sprintf("%s-%d-%d-%d", name, os.Getpid(), number, i)
}
