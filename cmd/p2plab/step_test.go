package main

import (
	"math"
	"os"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

// TestStep runs the command end to end, by its old name: whole nodes, a synced disk, phases that
// add up, and counts that can be.
func TestStep(t *testing.T) {
	kept := t.TempDir()
	p := clitest.Start(t, t.TempDir(), "bench", "slot", "--peers", "3", "--size", "16KiB", "--slots", "4",
		"--trusts", "byzantine", "--keep-dir", kept)
	if code := p.Ends(t); code != cli.ExitOK {
		t.Fatalf("exit %d", code)
	}
	out := p.Out.String()
	whole := figures(out, "sec/op")
	if !strings.Contains(out, "BenchmarkStep/peers=3/size=16KiB/byzantine-") || len(whole) == 0 || len(whole) > 3*4 {
		t.Fatalf("printed\n%s", out)
	}
	for _, phase := range []string{"encode", "plan", "reduce", "hold", "certify", "apply", "load"} {
		for i, x := range figures(out, phase+"-sec") {
			whole[i] -= x
		}
	}
	for _, left := range whole {
		if math.Abs(left) > 1e-5 {
			t.Errorf("phases do not add up: %v is left", left)
		}
	}
	// each peer sends every other one a third of its vector at least, and syncs what it promises
	for unit, least := range map[string]float64{
		"exchange-B": 3 * 2 * (16 << 10) / 3, "fsyncs": 3, "signatures": 3, "signature-checks": 3, "control-B": 1,
		"gossip-B": 1, "cpu-sec": 1e-6, "peak-vectors": 0,
	} {
		if x := figures(out, unit); len(x) != 1 || x[0] < least {
			t.Errorf("%s: %v, at least %v are needed", unit, x, least)
		}
	}
	if left, err := os.ReadDir(kept); err != nil || len(left) != 1 {
		t.Errorf("kept %v, %v", left, err)
	}
}
