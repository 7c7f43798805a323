package main

import (
	"os/exec"
	"strings"
	"testing"
)

const hostilePackage = "github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"

// TestNothingHostileIsShipped: without the tag, no program has the code of hostile peers; with it,
// only this one has.
func TestNothingHostileIsShipped(t *testing.T) {
	for _, c := range []struct {
		tags, program string
		want          bool
	}{
		{"", "../p2pdiloco", false},
		{"", ".", false},
		{"hostile", "../p2pdiloco", false},
		{"hostile", ".", true},
	} {
		out, err := exec.Command("go", "list", "-deps", "-tags", c.tags, c.program).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(out), hostilePackage); got != c.want {
			t.Errorf("%s with tags %q has the code of hostile peers: %v", c.program, c.tags, got)
		}
	}
}
