package cclient

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// TestMemoryOfABox: the ranks, two processes with a model of 20 million parameters each, and the
// node's side take two vectors beside the models, all of their memory counted and shared pages
// once. So neither the client nor the node keeps a copy of a vector.
func TestMemoryOfABox(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 320 MB")
	}
	const vector = 80_000_000 // bytes
	program := filepath.Join(t.TempDir(), "wide")
	before, server := pss(t, os.Getpid()), listen(t)
	if out, err := exec.CommandContext(t.Context(), "cc", "-O2", "-std=c11", "-D_DEFAULT_SOURCE", "-I", headers, "-o",
		program, "testdata/wide.c").CombinedOutput(); err != nil {
		t.Skipf("%v: %s", err, out)
	}
	var all []*exec.Cmd
	for rank := range 2 {
		cmd := exec.CommandContext(t.Context(), program, fmt.Sprint(rank), "2", fmt.Sprint(vector/4000))
		cmd.Env = append(os.Environ(), attach.Variable+"="+server.Path())
		do(t, cmd.Start())
		all = append(all, cmd)
	}
	tr, params, local := attached(t, server)
	ctx := t.Context()
	do(t, tr.Init(ctx, params), tr.Load(ctx, params))
	_, err := tr.Train(ctx, trainer.Task{Slot: 1, Steps: 3, PartSteps: 3})
	do(t, err, tr.ExportGradient(ctx, params, local, func(int, int) error { return nil }), tr.Load(ctx, params))
	for i := range params {
		if params[i] != float32(i%1000) || local[i] != 3 {
			t.Fatalf("element %d: %v, and a pseudo-gradient of %v", i, params[i], local[i])
		}
	}
	if shared := tr.SharedBytes(); shared < 2*vector || shared > 2*vector+vector/100 {
		t.Errorf("%d MB are shared as the status says, two vectors have %d", shared/1e6, 2*vector/1_000_000)
	}
	used := pss(t, os.Getpid()) - before
	for _, cmd := range all {
		used += pss(t, cmd.Process.Pid)
	}
	for _, cmd := range all { // all were measured: a rank ends where another one is lost
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
