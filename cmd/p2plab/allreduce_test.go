package main

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

// The command end to end: processes, connections, reduction, checks, and figures that can be.
func TestAllreduce(t *testing.T) {
	for _, aggregator := range []string{"mean", "trimmed_mean"} {
		p := clitest.Start(t, t.TempDir(), "bench", "allreduce", "--peers", "3", "--elements", "70001", "--iters", "2",
			"--aggregator", aggregator)
		if code := p.Ends(t); code != cli.ExitOK {
			t.Fatalf("exit %d", code)
		}
		out := p.Out.String()
		if !strings.Contains(out, "BenchmarkAllReduce/peers=3/size=273KiB") || len(figures(out, "sec/op")) != 2 ||
			!slices.Equal(figures(out, "verified"), []float64{1}) || slices.Min(figures(out, "cpu-sec/GB")) <= 0 {
			t.Errorf("printed\n%s", out)
		}
		// 2(N-1)/N of the vector from each of N peers, some headers and hashes, a little less where
		// a slow machine has frames packed; memory for a vector and its outcome at least.
		const least = 2 * 2 * 4 * 70001
		if sent := figures(out, "sent-B"); slices.Min(sent) < .9*least || slices.Max(sent) > 1.1*least ||
			figures(out, "peak-B")[0] < 2*4*70001 {
			t.Errorf("%v bytes sent, at least %v are needed", sent, least)
		}
	}
}

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

// Without roots there is nothing to compare frames with, and the outcome must be as good.
func TestAllreduceForPeople(t *testing.T) {
	p := clitest.Start(t, t.TempDir(), "bench", "allreduce", "--peers", "2", "--size", "64KiB", "--iters", "1",
		"--roots=false", "--transport", "quic")
	if code := p.Ends(t); code != cli.ExitOK || !slices.Equal(figures(p.Out.String(), "verified"), []float64{1}) ||
		!strings.Contains(p.Out.String(), "peers=2/size=64KiB/quic/rootless") {
		t.Errorf("exit %d", code)
	}
}

// OpenMPI is not needed to build or test: without it the command says what to install, with it
// there is a ratio.
func TestAllreduceAgainstMPI(t *testing.T) {
	p := clitest.Start(t, t.TempDir(), "bench", "allreduce", "--peers", "2", "--size", "64KiB", "--iters", "1",
		"--against", "mpi")
	code, stdout, stderr := p.Ends(t), p.Out.String(), p.Err.String()
	_, err := exec.LookPath("mpicc")
	if err == nil {
		_, err = exec.LookPath("mpirun")
	}
	if err != nil {
		if code != cli.ExitFailed || !strings.Contains(stderr, "apt-get install openmpi-bin libopenmpi-dev") {
			t.Errorf("exit %d", code)
		}
		return
	}
	if code != cli.ExitOK || !strings.Contains(stdout, "x-mpi") {
		t.Errorf("exit %d", code)
	}
}
