//go:build unix

package main

import (
	"encoding/json"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/chaos"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// TestSoak runs two small swarms beside each other. So short a run says little about the goals, but
// the exit status must say the same of them as the result.
func TestSoak(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("two swarms for half a minute: nightly")
	}
	t.Parallel()
	p := clitest.Start(t, t.TempDir(), "soak", "--minutes", "0.3", "--faults-per-hour", "600", "--peers", "3",
		"--faults", "kill,stop", "--json")
	code := p.Ends(t)
	var r chaos.SoakResult
	if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil {
		t.Fatalf("stdout is not one JSON document: %v", err)
	}
	if !r.OK || r.Met != (code == cli.ExitOK) || len(r.Faulted.Faults)+r.Faulted.Left != 3 {
		t.Errorf("exit %d with %+v", code, r)
	}
	for _, s := range []chaos.Result{r.Faulted, r.Control} {
		if s.Slots == 0 || s.Tokens == 0 {
			t.Fatalf("%+v", s)
		}
	}
}

// TestSoakInterrupted: Ctrl-C ends both swarms, and neither a process nor a folder is left.
func TestSoakInterrupted(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("two swarms: nightly")
	}
	t.Parallel()
	interrupt(t, "control", "soak", "--minutes", "5", "--peers", "3")
}
