//go:build !unix

package plugin

import (
	"errors"
	"os"
)

// On these systems a program cannot be a host. Open returns an error before it calls any of these
// functions.

func startCommand(*process, Config, *os.File) error { return errors.ErrUnsupported }
func (*process) kill()                              {}
func (*process) ending() string                     { return "" }
