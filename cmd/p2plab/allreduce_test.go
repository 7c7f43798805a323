package main

import (
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/reducebench"
)

// The command end to end: processes, connections, reduction, checks, and one document on stdout
// with the promised names.
func TestAllreduce(t *testing.T) {
	for _, aggregator := range []string{"mean", "trimmed_mean"} {
		p := clitest.Start(t, t.TempDir(), "bench", "allreduce", "--peers", "3", "--elements", "70001", "--iters", "2",
			"--aggregator", aggregator, "--json")
		if code := p.Ends(t); code != cli.ExitOK {
			t.Fatalf("exit %d", code)
		}
		var r reducebench.Result
		if err := json.Unmarshal(p.Out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if !r.Verified || r.Peers != 3 || r.Elements != 70001 || r.Bytes != 4*70001 || r.Aggregator != aggregator ||
			len(r.Samples) != 2 || !r.Roots {
			t.Errorf("%+v", r)
		}
		if r.Seconds.Min <= 0 || r.Seconds.Median < r.Seconds.Min || r.Seconds.Max < r.Seconds.Median || r.CPU <= 0 ||
			r.AlgBW <= 0 || r.BusBW <= r.AlgBW {
			t.Errorf("%+v", r)
		}
		// 2(N-1)/N of the vector from each of N peers, some headers and hashes, a little less where
		// a slow machine has frames packed; memory for a vector and its outcome at least.
		if least := uint64(2 * 2 * 4 * 70001); r.Sent < least*9/10 || r.Sent > least*11/10 || r.Peak < 2*r.Bytes {
			t.Errorf("%d bytes sent, at least %d are needed; peak memory %d", r.Sent, least, r.Peak)
		}
		var names map[string]any
		if err := json.Unmarshal(p.Out.Bytes(), &names); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"against", "aggregator", "algbw", "beside", "busbw", "bytes", "codec", "cores", "cpu_seconds_per_wire_GB",
			"elements", "frame", "iters", "links", "peak_rss_bytes",
			"peers", "roots", "samples", "schedule", "seconds", "security", "transport", "verified", "wire_bytes",
		}
		if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, want) {
			t.Errorf("the document has %q, want %q", got, want)
		}
	}
}

// Without roots there is nothing to compare frames with, and the outcome must be as good.
func TestAllreduceForPeople(t *testing.T) {
	p := clitest.Start(t, t.TempDir(), "bench", "allreduce", "--peers", "2", "--size", "64KiB", "--iters", "1",
		"--roots=false", "--transport", "quic")
	if code := p.Ends(t); code != cli.ExitOK || !strings.Contains(p.Out.String(), "close to the reference") ||
		!strings.Contains(p.Out.String(), "2 peers, 64 KiB") {
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
	if code != cli.ExitOK || !strings.Contains(stdout, "of its time") {
		t.Errorf("exit %d", code)
	}
}
