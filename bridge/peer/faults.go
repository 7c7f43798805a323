package peer

import "errors"

// ErrInvalid is what errors about settings are, for errors.Is: nothing was started.
var ErrInvalid = errors.New("the settings cannot be obeyed")

// invalid is an error that is ErrInvalid without saying so.
type invalid struct{ error }

func (e invalid) Is(target error) bool { return target == ErrInvalid }
func (e invalid) Unwrap() error        { return e.error }

// Invalid makes an ErrInvalid of an error, nil of nil.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return invalid{err}
}
