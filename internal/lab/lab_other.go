//go:build !linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
)

func unsupported() error {
	return fmt.Errorf("lab: network namespaces are Linux's, this is %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func makeNodes(context.Context, Config) ([]node, error) { return nil, unsupported() }

func makeWires(context.Context, Config) ([]string, error) { return nil, unsupported() }

func placeIn(string, *exec.Cmd) error { return unsupported() }

func doIn(string, func() error) error { return unsupported() }

func removeNamespace(string) error { return unsupported() }

// Clean has nothing to do where there are no namespaces.
func Clean(string) ([]string, error) { return nil, nil }

// NewSpaces needs Linux.
func NewSpaces(context.Context, string, int) ([]Space, error) { return nil, unsupported() }

// Place needs Linux.
func (l *Lab) Place(int, *exec.Cmd) error { return unsupported() }

// Do needs Linux.
func (l *Lab) Do(int, func() error) error { return unsupported() }
