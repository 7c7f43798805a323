//go:build !linux

package chaos

import "errors"

func mountSmall(string, int) error { return errors.ErrUnsupported }

func unmountSmall(string) error { return errors.ErrUnsupported }
