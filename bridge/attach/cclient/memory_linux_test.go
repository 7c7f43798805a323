package cclient

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// TestMemoryOfABox: the ranks, two processes with a model of 20 million parameters each, and the
// node's side take two vectors beside the models, all of their memory counted and shared pages
// once. So neither the client nor the node keeps a copy of a vector.
func TestMemoryOfABox(t *testing.T) {
	if !testlevel.Nightly() {
		t.Skip("it takes 320 MB, and a client without sanitizers")
	}
	const vector = 80_000_000 // bytes
	plain := filepath.Join(t.TempDir(), "plain")
	do(t, compile("cc", "-std=c11", "-O2", "-o", plain, "testdata/client.c"))
	defer func(sanitized string) { program = sanitized }(program)
	program = plain
	before, rows := pss(t, os.Getpid()), fmt.Sprint(vector/4000)
	n, ctx := begin(t, t.TempDir(), []string{"wide", "0", "2", rows}, []string{"wide", "1", "2", rows}), t.Context()
	do(t, n.Init(ctx, n.params), n.Load(ctx, n.params))
	_, err := n.Train(ctx, trainer.Task{Slot: 1, Steps: 3, PartSteps: 3})
	do(t, err, n.ExportGradient(ctx, n.params, n.local, func(int, int) error { return nil }), n.Load(ctx, n.params))
	for i := range n.params {
		if n.params[i] != 0 || n.local[i] != 3 {
			t.Fatalf("element %d: %v, and a pseudo-gradient of %v", i, n.params[i], n.local[i])
		}
	}
	if shared := n.SharedBytes(); shared < 2*vector || shared > 2*vector+vector/100 {
		t.Errorf("%d MB are shared as the status says, two vectors have %d", shared/1e6, 2*vector/1_000_000)
	}
	used := pss(t, os.Getpid()) - before
	for _, cmd := range n.clients {
		used += pss(t, cmd.Process.Pid)
	}
	for _, cmd := range n.clients { // all were measured: a rank ends where another one is lost
		do(t, cmd.Process.Kill())
		_ = cmd.Wait()
	}
	if used > 4*vector+vector/4 || used < 4*vector*9/10 { // programs and their stacks
		t.Errorf("they have %d MB, the models and two vectors have %d", used/1e6, 4*vector/1_000_000)
	}
}

// pss is the memory of a process in bytes, with its share of pages that it has in common with
// others.
func pss(t *testing.T, pid int) (n int) {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	do(t, err)
	_, size, _ := strings.Cut(string(text), "\nPss:")
	if _, err := fmt.Sscanf(size, "%d kB", &n); err != nil {
		t.Fatalf("%s", text)
	}
	return n << 10
}
