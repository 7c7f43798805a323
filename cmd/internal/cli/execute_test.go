package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A command may end with a status alone, and with an error besides: that is said. The peer whose
// trainer failed at the end of a branch said nothing.
func TestErrorsBesideAStatusAreSaid(t *testing.T) {
	trainer := errors.New("torchrun: exit status 1")
	for _, c := range []struct {
		err  error
		code int
		said string
	}{
		{ErrBranch, ExitBranch, ""},
		{errors.Join(ErrBranch, nil), ExitBranch, ""},
		{errors.Join(errors.Join(ErrBranch, nil), trainer), ExitBranch, "p: torchrun: exit status 1\n"},
		{errors.Join(trainer, ErrFailed), ExitFailed, "p: torchrun: exit status 1\n"},
		{NothingDone("nothing was done"), ExitUsage, "p: nothing was done\n"}, // no advice
		{fmt.Errorf("at the end: %w", trainer), ExitFailed, "p: at the end: torchrun: exit status 1\n"},
	} {
		root := NewRoot(&cobra.Command{Use: "p", RunE: func(*cobra.Command, []string) error { return c.err }})
		var out, errs strings.Builder
		if code := Execute(root, nil, &out, &errs); code != c.code || errs.String() != c.said {
			t.Errorf("%q: exit %d, said %q", c.err, code, errs.String())
		}
	}
}
