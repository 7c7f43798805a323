package clitest

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
)

// Line runs a command line in this process. It must be one that starts nothing.
func Line(root *cobra.Command, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = cli.Execute(root, args, &out, &errs)
	return code, out.String(), errs.String()
}

// Case is a command line, and what its answer must contain.
type Case [2]string

// Answers runs command lines, whose words are separated by one space each. All must end with the
// exit status; the text wanted is on stdout for status 0 and else on stderr. A usage error prints
// nothing to stdout.
func Answers(t *testing.T, newRoot func() *cobra.Command, code int, cases []Case) {
	t.Helper()
	for _, c := range cases {
		line, want := c[0], c[1]
		var args []string
		if line != "" {
			args = strings.Split(line, " ")
		}
		got, stdout, stderr := Line(newRoot(), args...)
		text, quiet := stderr, ""
		switch code {
		case cli.ExitOK:
			text, quiet = stdout, stderr
		case cli.ExitUsage:
			quiet = stdout
		}
		if got != code || quiet != "" || !strings.Contains(text, want) {
			t.Errorf("%s: exit %d, stdout %q, stderr %q; want %d and %q", line, got, stdout, stderr, code, want)
		}
	}
}

// Sourced is a variable of the environment, as NAME=VALUE, a command line, and what its answer must
// contain.
type Sourced [3]string

// NameTheirSources runs command lines that must end with a usage error, which names the place that
// the wrong value came from.
func NameTheirSources(t *testing.T, newRoot func() *cobra.Command, cases []Sourced) {
	t.Helper()
	for _, c := range cases {
		t.Run(c[0]+" "+c[1], func(t *testing.T) {
			name, value, _ := strings.Cut(c[0], "=")
			t.Setenv(name, value)
			Answers(t, newRoot, cli.ExitUsage, []Case{{c[1], c[2]}})
		})
	}
}
