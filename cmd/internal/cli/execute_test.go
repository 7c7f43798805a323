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
		{ErrProvisional, ExitProvisional, ""},
		{errors.Join(ErrProvisional, nil), ExitProvisional, ""},
		{errors.Join(errors.Join(ErrProvisional, nil), trainer), ExitProvisional, "p: torchrun: exit status 1\n"},
		{errors.Join(trainer, ErrFailed), ExitFailed, "p: torchrun: exit status 1\n"},
		{ // no advice on the command line
			ErrNothingDone, ExitUsage, "p: nothing was done: repeat the command with --yes to do it\n",
		},
		{fmt.Errorf("at the end: %w", trainer), ExitFailed, "p: at the end: torchrun: exit status 1\n"},
	} {
		root := NewRoot(&cobra.Command{Use: "p", RunE: func(*cobra.Command, []string) error { return c.err }})
		var out, errs strings.Builder
		if code := Execute(root, nil, &out, &errs); code != c.code || errs.String() != c.said {
			t.Errorf("%q: exit %d, said %q", c.err, code, errs.String())
		}
	}
}

// The library's errors name fields of Go's settings beside the flags, for those who call it.
func TestErrorsHaveNoNamesOfGo(t *testing.T) {
	for of, want := range map[string]string{
		"x exists: replace it with --force (ExportConfig.Force)":    "x exists: replace it with --force",
		"give the file (--init, Config.InitFile)":                   "give the file (--init)",
		"at most 9 are adopted: raise Config.MaxAdopted or give it": "at most 9 are adopted: give it",
	} {
		root := NewRoot(&cobra.Command{Use: "p", RunE: func(*cobra.Command, []string) error { return errors.New(of) }})
		var out, errs strings.Builder
		if Execute(root, nil, &out, &errs); errs.String() != "p: "+want+"\n" {
			t.Errorf("%q is said as %q", of, errs.String())
		}
	}
}
