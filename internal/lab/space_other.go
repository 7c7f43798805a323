//go:build !linux

package lab

import (
	"errors"
	"os"
)

// Do needs Linux, without which there are no namespaces.
func (Space) Do(func() error) error { return errors.ErrUnsupported }

func openTun(Space) (*os.File, error) { return nil, errors.ErrUnsupported }
