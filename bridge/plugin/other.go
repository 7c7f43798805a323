//go:build !unix

package plugin

import (
	"errors"
	"os"
)

// On these systems a program cannot be a host. Open returns an error before it calls any of these
// functions.

func anonymousFile() (*os.File, error)                { return nil, errors.ErrUnsupported }
func setSize(*os.File, int64) error                   { return errors.ErrUnsupported }
func mapFile(*os.File, int) ([]byte, error)           { return nil, errors.ErrUnsupported }
func unmap([]byte) error                              { return errors.ErrUnsupported }
func startCommand(*process, Config, []*os.File) error { return errors.ErrUnsupported }
func (*process) kill()                                {}
func (*process) ending() string                       { return "" }
