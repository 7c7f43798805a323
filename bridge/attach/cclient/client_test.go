package cclient

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

const (
	golden  = "../testdata/wire"
	headers = "../../include"
	example = "../../../examples/c/attach.c"
)

// compile makes a program of a C file, which every warning spoils. It stops at a fault.
func compile(t *testing.T, source string) (program string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler is installed")
	}
	program = filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), cc, "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover",
		"-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", headers, "-o", program,
		source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

func message(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(golden, name+".hex"))
	do(t, err)
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	do(t, err)
	return b
}

// Every golden message is packed by the client, or read by it, and what is none is refused.
func TestGoldenBytes(t *testing.T) {
	program := compile(t, "testdata/messages.c")
	reads := map[string]string{
		"welcome":    "2 1 1=65536 2:my-run 3:/data/my-run 4=4711",
		"share":      "4 2 1=24577 2=65536 3=163844 4=3 5:\x01",
		"info":       `5 0 1:abcd 2:12D3 3:sync 4=500 5=100 6:{"name":"my-run"}`,
		"info-ended": "5 0 1:abcd 2:12D3 3:sync 4=500 5=100 7=100 8:4b88",
		"fill":       "16 1", "load": "17 2 2=24577 3=2",
		"load-range": "17 3 1=96 2=192 3=4", "export": "18 4 1=96 2=192 3=2", "evaluate": "19 5",
		"save":          "20 6 1:/data/my-run/trainer/3.new",
		"restore":       "21 7 1:/data/my-run/trainer/3 2=2",
		"train":         "22 8 1=4 2=500 3=12 4=1 5=7 6=1 7=3 8=10 9=500 10=20 11=5",
		"train-save":    "22 8 1=1 2=1 7=1 13:/data/my-run/trainer/3-0-0-1-5e5e",
		"train-step":    "22 8 1=3 2=500 7=1 14=1000 15=10000",
		"train-members": "22 8 1=1 2=1 7=2 12:12D3a\n12D3b", "cancel": "27 8",
		"go": "26 9 2=24", "go-give-up": "26 9 1=1", "notice": "32 0 1=1 2:no quorum: paused", "pong": "34 10",
		"error": "36 0 1=4 2:pid 71 trains this run here: give data_dir= for a second peer",
	}
	packs := map[string]bool{
		"hello": true, "hello-rank-0": true, "layout-boxes": true, "layout-flat": true, "offer": true, "at": true,
		"done": true, "done-evaluated": true, "done-failed": true, "done-unsupported": true, "leave": true,
	}
	files, err := filepath.Glob(filepath.Join(golden, "*.hex"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".hex")
		switch want := message(t, name); {
		case packs[name]:
			if got := output(t, program, "pack", name); !bytes.Equal(got, want) {
				t.Errorf("%s: packed as\n%x, want\n%x", name, got, want)
			}
		case reads[name] != "":
			if got := read(t, program, want); got != reads[name] {
				t.Errorf("%s: read as\n%s, want\n%s", name, got, reads[name])
			}
		case name != "ping" && name != "hello-saves": // the C client sends none
			t.Errorf("%s: no test of it", name)
		}
	}
	load := message(t, "load")
	long, twice := bytes.Clone(load), append(bytes.Clone(load), load[16:32]...)
	long[20] = 0xff // bytes of the first field
	twice[0] += 16  // of the body
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"torn":  {append([]byte{9}, load[1:25]...), "no message"},
		"long":  {long, "no message"},
		"twice": {twice, "17 2 2:twice 3=2"},
	} {
		if got := read(t, program, c.raw); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func read(t *testing.T, program string, raw []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "message")
	do(t, os.WriteFile(path, raw, 0o600))
	return strings.TrimSuffix(string(output(t, program, "read", path)), "\n")
}

func output(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return out
}

// start runs the example, attached to a server of the test's.
func start(t *testing.T, server *attach.Server, program string) (wait func() (string, error)) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), attach.Variable+"="+server.Path())
	cmd.Stdout, cmd.Stderr = &out, &out
	do(t, cmd.Start())
	return func() (string, error) {
		err := cmd.Wait()
		return out.String(), err
	}
}

func listen(t testing.TB) *attach.Server {
	t.Helper()
	server, err := attach.Listen(attach.Config{DataDir: t.TempDir(), Run: "test"})
	do(t, err)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// do fails where something did.
func do(t testing.TB, all ...error) {
	t.Helper()
	if err := errors.Join(all...); err != nil {
		t.Fatal(err)
	}
}

// attached is the trainer of a program, and the vectors that it shares.
func attached(t testing.TB, server *attach.Server) (tr *attach.Trainer, params, local []float32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tr, err := server.Trainer(ctx)
	do(t, err)
	params, local, err = tr.MakeVectors(int(tr.Layout().Elements()))
	do(t, err)
	return tr, params, local
}

// TestExample: it fills, loads, does its steps, shows the pseudo-gradient, evaluates, moves a part
// of the model alone, and loads the final model. It gives steps up at a look, and goes on with the
// next ones. What the node says is its error, also where a border after a step found out that the
// node is gone.
func TestExample(t *testing.T) {
	program, ctx := compile(t, example), t.Context()
	server := listen(t)
	wait := start(t, server, program)
	tr, params, local := attached(t, server)
	if got := fmt.Sprint(tr.Layout()); !strings.Contains(got, "w") || len(params) != 2 {
		t.Fatalf("the layout is %s", got)
	}
	do(t, tr.Init(ctx, params), tr.Load(ctx, params))
	for slot := uint64(1); slot <= 20; slot++ {
		stats, err := tr.Train(ctx, trainer.Task{Slot: slot, Steps: 10, Part: slot, PartSteps: 10})
		if do(t, err); stats.Steps != 10 || stats.Tokens != 160 {
			t.Fatalf("%+v", stats)
		}
		do(t, tr.ExportGradient(ctx, params, local, func(int, int) error { return nil }))
		for i := range params {
			params[i] -= local[i] // sgd with rate 1: the peer's own parameters
		}
		do(t, tr.Load(ctx, params))
	}
	loss, err := tr.Evaluate(ctx)
	if err != nil || loss > 1e-3 || math.Abs(float64(params[0])-3) > .1 || math.Abs(float64(params[1])+1) > .1 {
		t.Errorf("loss %v, %v, y = %v", loss, err, params)
	}
	w, b := params[0], params[1]
	local[0], params[0], params[1] = 7, 8, 9
	do(t, tr.GradientRange(ctx, 1, local[1:]), tr.LoadRange(ctx, 1, params[1:]))
	if local[0] != 7 || local[1] != 9-b {
		t.Errorf("a part is exported, and local is %v", local)
	}
	if do(t, tr.ExportRange(ctx, 0, local)); local[0] != w || local[1] != 9 {
		t.Errorf("a part is loaded, and the model is %v", local)
	}
	if err := tr.SaveRanks(ctx, t.TempDir()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("save: %v", err)
	}
	givesUp(t, tr, params)
	server.End(wire.CodeEnded, "the run has ended")
	if out, err := wait(); err != nil || !strings.Contains(out, "the run has ended: y = ") ||
		!strings.Contains(out, "slot 20: 10 steps") {
		t.Errorf("%v: %s", err, out)
	}

	server = listen(t)
	wait = start(t, server, program)
	tr, params, _ = attached(t, server)
	do(t, tr.Load(ctx, params))
	time.AfterFunc(time.Second/5, func() { server.Dismiss(wire.CodeTimeout, "rank 0 of 1 has not moved") })
	if _, err := tr.Train(ctx, endless); !errors.Is(err, trainer.ErrAnew) {
		t.Errorf("train: %v", err)
	}
	if out, err := wait(); err == nil || !strings.HasSuffix(out, "attach: rank 0 of 1 has not moved\n") {
		t.Errorf("%v: %q", err, out)
	}
	server.End(wire.CodeClosed, "the node was asked to leave the run")
	if out, err := start(t, server, program)(); err == nil ||
		out != "attach: the node was asked to leave the run\n" {
		t.Errorf("%v: %q", err, out)
	}
}

var endless = trainer.Task{Slot: 21, Steps: 1 << 40, PartSteps: 1 << 40}

// givesUp has a trainer give up its steps.
func givesUp(t *testing.T, tr *attach.Trainer, params []float32) {
	t.Helper()
	short, stop := context.WithTimeout(t.Context(), time.Second/2)
	defer stop()
	if _, err := tr.Train(short, endless); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("train: %v", err)
	}
	do(t, tr.Load(t.Context(), params))
	stats, err := tr.Train(t.Context(), trainer.Task{Slot: 22, Steps: 3, PartSteps: 3})
	if do(t, err); stats.Steps != 3 {
		t.Fatalf("%+v", stats)
	}
}

// TestTheClientGoesOnWhereItWas: a program and its node are gone before a slot is agreed, and the
// next ones begin that round again with the state that it had begun with. When the slot is agreed
// while they are gone, they have that of the round's end. This one says every second step: it never
// came to the look after the first one, was not asked any more, and gave up nothing.
func TestTheClientGoesOnWhereItWas(t *testing.T) {
	program, dir, ctx := compile(t, "testdata/keeps.c"), t.TempDir(), t.Context()
	for _, slots := range [][]uint64{{0, 1, 2}, {2, 3}, {4}} {
		server, err := attach.Listen(attach.Config{DataDir: dir, Run: "test"})
		do(t, err)
		wait := start(t, server, program)
		tr, params, _ := attached(t, server)
		tr.Joined(wire.Info{Mode: "sync"})
		for _, slot := range slots {
			at := trainer.Anchor{Slot: slot, Root: [32]byte{byte(slot)}, Step: 10 * slot, TotalSteps: 40}
			tr.BeginAt(at)
			do(t, tr.Load(ctx, params))
			stats, err := tr.Train(ctx, trainer.Task{Slot: slot + 1, Steps: 10, Step: at.Step, TotalSteps: 40})
			if stats.Tokens != 10*slot+10 || stats.Samples != at.Step || err != nil {
				t.Errorf("slot %d: %+v, %v", slot+1, stats, err)
			}
		}
		if slots[0] == 4 {
			givesUp(t, tr, params)
		}
		do(t, server.Close())
		if out, err := wait(); err == nil {
			t.Errorf("the program has ended well: %s", out)
		}
	}
}

// TestTheClientRefuses: without a set each rank of several was a trainer of its own. One had the
// node, and the others heard for a minute that it is busy. Without an export of pieces all of
// params was written, over the parts of the other ranks.
func TestTheClientRefuses(t *testing.T) {
	out := string(output(t, compile(t, "testdata/refused.c")))
	first, second, _ := strings.Cut(out, "\n")
	if !strings.HasPrefix(first, "1 several ranks, and no set: give all of them the same text") ||
		!strings.HasPrefix(second, "1 pieces are given, and no export_range: give it") {
		t.Error(out)
	}
}
