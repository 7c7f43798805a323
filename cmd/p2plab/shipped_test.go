package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestNothingHostileIsShipped: of the programs only this one, which users do not need, has the code
// of hostile peers.
func TestNothingHostileIsShipped(t *testing.T) {
	for program, want := range map[string]bool{"../p2pdiloco": false, ".": true} {
		out, err := exec.Command("go", "list", "-deps", program).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(out), "p2pdiloco/internal/lab/hostile"); got != want {
			t.Errorf("%s has the code of hostile peers: %v", program, got)
		}
	}
}
