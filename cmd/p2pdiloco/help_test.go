package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

// The help of join and start fits into 20 lines, and names no flag that there is not; --help-all
// has all of them. What stands behind -- is the trainer's.
func TestHelpIsShort(t *testing.T) {
	for _, command := range []string{"join", "start"} {
		code, short, _ := clitest.Line(newRoot(), command, "--help")
		if lines := strings.Count(short, "\n"); code != cli.ExitOK || lines >= 20 {
			t.Errorf("%s --help has %d lines (status %d):\n%s", command, lines, code, short)
		}
		_, all, _ := clitest.Line(newRoot(), command, "--rounds", "3", "--help-all")
		for _, flag := range regexp.MustCompile(`--[a-z][a-z-]+`).FindAllString(short, -1) {
			if !strings.Contains(all, flag+" ") && flag != "--nproc" {
				t.Errorf("%s --help has %s, and --help-all has not", command, flag)
			}
		}
		if strings.Count(all, "\n") < 60 || !strings.Contains(all, "Examples:") {
			t.Errorf("%s --help-all says\n%s", command, all)
		}
	}
	args := []string{"join", "--run", "x", "--rounds", "none", "--", "echo", "--help-all"}
	if code, out, _ := clitest.Line(newRoot(), args...); code != cli.ExitUsage {
		t.Errorf("status %d: %s", code, out)
	}
}
