package cclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// wide starts ranks with a model of that many times 1000 parameters each, and returns what ends
// them.
func wide(ctx context.Context, t testing.TB, server *attach.Server, world, rows int) (ranks []*exec.Cmd, end func()) {
	t.Helper()
	program := compile(t, "testdata/wide.c", "-O2")
	ctx, cancel := context.WithCancel(ctx)
	for rank := range world {
		cmd := exec.CommandContext(ctx, program, strconv.Itoa(rank), strconv.Itoa(world), strconv.Itoa(rows))
		cmd.Env = append(os.Environ(), attach.Variable+"="+server.Path())
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ranks = append(ranks, cmd)
	}
	return ranks, func() {
		cancel()
		for _, cmd := range ranks {
			_ = cmd.Wait()
		}
	}
}

// TestMemoryOfABox: the ranks, processes with a model of 50 million parameters each, and the
// node's side take two vectors beside the models, whatever the number of ranks, all of their
// memory counted and shared pages once. So neither the client nor the node keeps a copy of a
// vector.
func TestMemoryOfABox(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 800 MB")
	}
	const vector = 200_000_000 // bytes
	for _, world := range testlevel.Choose(nil, []int{1, 2}, []int{1, 2, 4}) {
		t.Run(fmt.Sprint(world), func(t *testing.T) {
			before := pss(t, os.Getpid())
			server := listen(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			ranks, end := wide(ctx, t, server, world, vector/4000)
			defer end()
			shared := oneRound(ctx, t, server)
			if shared < 2*vector || shared > 2*vector+vector/100 {
				t.Errorf("%d MB are shared as the status says, two vectors have %d", shared/1e6, 2*vector/1_000_000)
			}
			used := pss(t, os.Getpid()) - before
			for _, cmd := range ranks {
				used += pss(t, cmd.Process.Pid)
			}
			most := (world+2)*vector + vector/4 // programs and their stacks
			t.Logf("%d ranks and the node's side have %d MB, %d of them the ranks' models", world, used/1e6,
				world*vector/1_000_000)
			if used > most || used < (world+2)*vector*9/10 {
				t.Errorf("they have %d MB, the models and two vectors have %d", used/1e6, (world+2)*vector/1_000_000)
			}
		})
	}
}

// oneRound fills, trains, exports and loads, so that all memory is used that is ever used. It
// returns how many bytes are said to be shared.
func oneRound(ctx context.Context, t *testing.T, server *attach.Server) uint64 {
	t.Helper()
	tr, err := server.Trainer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	start, local, err := tr.MakeVectors(int(tr.Layout().Elements()))
	if err == nil {
		err = tr.Init(ctx, start)
	}
	if err == nil {
		err = tr.Load(ctx, start)
	}
	if err == nil {
		_, err = tr.Train(ctx, trainer.Task{Slot: 1, Steps: 3, PartSteps: 3})
	}
	if err == nil {
		err = tr.ExportGradient(ctx, start, local, func(int, int) error { return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range start {
		if start[i] != float32(i%1000) || local[i] != 3 {
			t.Fatalf("element %d: %v, and a pseudo-gradient of %v", i, start[i], local[i])
		}
	}
	if err := tr.Load(ctx, start); err != nil {
		t.Fatal(err)
	}
	return tr.SharedBytes()
}

// pss is the memory of a process in bytes, with its share of pages that it has in common with
// others.
func pss(t *testing.T, pid int) (n int) {
	t.Helper()
	debug.FreeOSMemory()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, "Pss: %d kB", &n); err == nil {
			return n << 10
		}
	}
	t.Fatalf("%s", text)
	return 0
}

// TestAFullSharedMemoryFolder: containers have 64 MiB in /dev/shm, and other programs fill them.
// The vectors are not there, so a trainer attaches and trains although not a byte is left.
func TestAFullSharedMemoryFolder(t *testing.T) {
	const folder = "/dev/shm"
	if !attachtest.OnFullTmpfs(t, folder) {
		return
	}
	if err := os.WriteFile(folder+"/more", []byte("more"), 0o600); err == nil {
		t.Fatal("there is room left")
	}
	server := listen(t)
	start(t, server, compile(t, example))
	ctx, tr, _ := loaded(t, server)
	if stats, err := tr.Train(ctx, trainer.Task{Slot: 1, Steps: 3, PartSteps: 3}); err != nil || stats.Steps != 3 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// TestTooLittleMemoryIsSaid: a model that this machine has no room for is refused before the first
// step, with the node's sentence. It was not tested that this comes to the trainer at all; a
// client that maps more than there is dies at its first write.
func TestTooLittleMemoryIsSaid(t *testing.T) {
	server := listen(t)
	cmd := exec.CommandContext(t.Context(), compile(t, "testdata/huge.c"))
	cmd.Env = append(os.Environ(), attach.Variable+"="+server.Path())
	out, err := cmd.CombinedOutput()
	const begin = "2 7 too little memory: a vector that is shared with the trainer takes 4194304 MiB, and "
	const end = " MiB are free on this machine or in its cgroup: end other programs, or raise the limit\n"
	if text := string(out); err != nil || !strings.HasPrefix(text, begin) || !strings.HasSuffix(text, end) {
		t.Errorf("%v: %s", err, out)
	}
	soon, stop := context.WithTimeout(t.Context(), time.Second/5)
	defer stop()
	if _, err := server.Trainer(soon); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the node has a trainer: %v", err)
	}
}
