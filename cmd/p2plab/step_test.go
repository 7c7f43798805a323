package main

import (
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

// figures are all values of a unit in lines of Go's benchmark format.
func figures(out, unit string) (x []float64) {
	for l := range strings.Lines(out) {
		f := strings.Fields(l)
		for i := 2; i+1 < len(f) && strings.HasPrefix(f[0], "Benchmark"); i += 2 {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil && f[i+1] == unit {
				x = append(x, v)
			}
		}
	}
	return x
}

// TestStep runs the command end to end: whole nodes, a synced disk, phases that add up, counts that
// can be, and a floor, which whole nodes do not reach.
func TestStep(t *testing.T) {
	kept := t.TempDir()
	p := clitest.Start(t, t.TempDir(), "bench", "step", "--peers", "3", "--size", "16KiB", "--slots", "4",
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
	// each peer sends every other one a third of its vector at least
	for unit, least := range map[string]float64{
		"exchange-B": 3 * 2 * (16 << 10) / 3, "control-B": 1, "gossip-B": 1, "cpu-sec": 1e-6,
		"peak-vectors": 0, "live-vectors": 0, "floor-sec": 1e-9,
	} {
		if all := figures(out, unit); len(all) != 1 || all[0] < least {
			t.Errorf("%s: %v, at least %v are needed", unit, all, least)
		}
	}
	if left, err := os.ReadDir(kept); err != nil || len(left) != 1 {
		t.Errorf("kept %v, %v", left, err)
	}
}

// TestAllreduce runs the command end to end: processes, connections, reductions with one outcome,
// and figures that can be.
func TestAllreduce(t *testing.T) {
	for _, args := range [][]string{{"--aggregators", "trimmed_mean"}, {"--transports", "quic"}} {
		p := clitest.Start(t, t.TempDir(), append([]string{
			"bench", "allreduce", "--peers", "3", "--size", "272KiB", "--slots", "2",
		}, args...)...)
		if code := p.Ends(t); code != cli.ExitOK {
			t.Fatalf("exit %d", code)
		}
		out := p.Out.String()
		if !strings.Contains(out, "BenchmarkAllReduce/peers=3/size=272KiB/") || len(figures(out, "sec/op")) != 2 ||
			slices.Min(figures(out, "cpu-sec/GB")) <= 0 {
			t.Errorf("printed\n%s", out)
		}
		// 2(N-1)/N of the vector from each of N peers, some headers and hashes, a little less where
		// a slow machine has frames packed; memory for a vector and its outcome at least.
		const least = 2 * 2 * 272 * 1024
		if sent := figures(out, "exchange-B"); slices.Min(sent) < .9*least || slices.Max(sent) > 1.1*least ||
			figures(out, "peak-vectors")[0] < 2 {
			t.Errorf("%v bytes sent, at least %v are needed", sent, least)
		}
	}
}

// TestAgainstMPI: OpenMPI is not needed to build or test. Without it the command says at once what
// to install, with it there is a ratio.
func TestAgainstMPI(t *testing.T) {
	p := clitest.Start(t, t.TempDir(), "bench", "allreduce", "--peers", "2", "--size", "64KiB", "--slots", "1",
		"--against", "mpi")
	code, stdout, stderr := p.Ends(t), p.Out.String(), p.Err.String()
	_, err := exec.LookPath("mpicc")
	if err == nil {
		_, err = exec.LookPath("mpirun")
	}
	if err != nil {
		if code != cli.ExitFailed || !strings.Contains(stderr, "apt-get install openmpi-bin libopenmpi-dev") ||
			stdout != "" {
			t.Errorf("exit %d", code)
		}
		return
	}
	if code != cli.ExitOK || !strings.Contains(stdout, "sec-x-mpi") {
		t.Errorf("exit %d", code)
	}
}
