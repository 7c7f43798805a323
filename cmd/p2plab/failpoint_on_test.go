//go:build failpoints && unix

package main

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/chaos"
)

// TestChaosAtFailpoints: peers of a small swarm fail at places in their code, and nothing agreed is
// lost.
func TestChaosAtFailpoints(t *testing.T) {
	p := clitest.Start(t, t.TempDir(), "chaos", "--peers", "4", "--slots", "16", "--seed", "2", "--faults",
		"failpoint", "--json")
	code := p.Ends(t)
	var r chaos.Result
	if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	came := slices.ContainsFunc(r.Faults, func(f chaos.Injected) bool { return !f.Missed && f.Return > 0 })
	if code != cli.ExitOK || !r.OK || !came {
		t.Errorf("exit %d, %+v", code, r)
	}
}
