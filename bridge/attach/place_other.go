//go:build !unix

package attach

import "errors"

func own(string) error { return errors.ErrUnsupported }
