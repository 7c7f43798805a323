package cli

import (
	"context"
	"errors"
	"fmt"
)

// Exit statuses, as docs/reference/process.md lists them.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitProvisional = 3   // of join: its branch has ended, and may not be the run
	ExitOtherRun    = 4   // of join and start: which run is meant has to be said
	ExitInterrupted = 130 // what a shell reports for a program that SIGINT ended
)

var (
	// ErrFailed ends a command with ExitFailed and no further message: the command has printed one.
	ErrFailed error = &exitError{ExitFailed, nil}
	// ErrProvisional is ErrFailed with ExitProvisional.
	ErrProvisional error = &exitError{ExitProvisional, nil}
	// ErrNothingDone ends a command that has only said what it would do. Its line was right.
	ErrNothingDone error = &exitError{
		ExitUsage, errors.New("nothing was done: repeat the command with --yes to do it"),
	}
	// ErrInterrupted ends a command that a signal stopped.
	ErrInterrupted error = &exitError{ExitInterrupted, errors.New("interrupted")}
)

// Interrupted is the error of a command whose ctx is that of OrExit: ErrInterrupted after a signal.
func Interrupted(ctx context.Context, err error) error {
	if err != nil && errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return ErrInterrupted
	}
	return err
}

// exitError is an error with an exit status of its own. A nil err prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// OtherRun marks an error that says which runs of one name there are.
func OtherRun(err error) error { return &exitError{ExitOtherRun, err} }

// UsageError marks a command line that cannot be obeyed.
func UsageError(err error) error { return &exitError{ExitUsage, err} }

// IsUsage says whether an error is a UsageError.
func IsUsage(err error) bool {
	exit, ok := errors.AsType[*exitError](err)
	return ok && exit.code == ExitUsage
}

// spoken is what of an error is to be printed: all but those that only have an exit status.
func spoken(err error) error {
	if e, ok := err.(*exitError); ok && e.err == nil { //nolint:errorlint // not what wraps one
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) //nolint:errorlint // as above
	if !ok {
		return err
	}
	var errs []error
	for _, one := range joined.Unwrap() {
		errs = append(errs, spoken(one))
	}
	return errors.Join(errs...)
}
