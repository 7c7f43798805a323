//go:build !linux

package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

func unsupported() error {
	return fmt.Errorf("lab: network namespaces are Linux's, this is %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// NewSpaces needs Linux.
func NewSpaces(context.Context, string, int) ([]Space, error) { return nil, unsupported() }

// Clean has nothing to do where there are no namespaces.
func Clean(string) ([]string, error) { return nil, nil }

// Do needs Linux.
func (s Space) Do(func() error) error { return unsupported() }

func (s Space) remove() error { return unsupported() }

func openTun(Space, Config, int) (device, error) { return nil, unsupported() }
