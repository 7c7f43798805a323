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

// compile makes a program of a C file, which every warning spoils. It stops at a fault, unless
// there are flags for something else.
func compile(t testing.TB, source string, flags ...string) (program string) {
	t.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler is installed")
	}
	program = filepath.Join(t.TempDir(), "program")
	if len(flags) == 0 {
		flags = []string{"-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover"}
	}
	flags = append(flags, "-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", headers,
		"-o", program, source)
	cmd := exec.CommandContext(t.Context(), cc, flags...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

func message(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(golden, name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every golden message is packed by the client, or read by it.
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
}

func TestWhatIsNoMessage(t *testing.T) {
	program := compile(t, "testdata/messages.c")
	load := message(t, "load")
	long := bytes.Clone(load)
	long[20] = 0xff // bytes of the first field
	tests := map[string]struct {
		raw  []byte
		want string
	}{
		"torn":  {append([]byte{9}, append(bytes.Clone(load[1:16]), load[16:25]...)...), "no message"},
		"long":  {long, "no message"},
		"twice": {twice(load), "17 2 2:twice 3=2"},
	}
	for name, c := range tests {
		if got := read(t, program, c.raw); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// twice repeats the first field of a message.
func twice(raw []byte) []byte {
	b := append(bytes.Clone(raw), raw[16:32]...)
	b[0] += 16
	return b
}

func read(t *testing.T, program string, raw []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "message")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
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
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() (string, error) {
		err := cmd.Wait()
		return out.String(), err
	}
}

func listen(t testing.TB) *attach.Server {
	t.Helper()
	server, err := attach.Listen(attach.Config{DataDir: t.TempDir(), Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// The example trains: it fills, loads, does its steps, shows the pseudo-gradient, evaluates, and
// loads the final model.
func TestExampleTrains(t *testing.T) {
	server := listen(t)
	wait := start(t, server, compile(t, example))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tr, err := server.Trainer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(tr.Layout()); !strings.Contains(got, "w") || tr.Layout().Elements() != 2 {
		t.Fatalf("the layout is %s", got)
	}
	params, local, err := tr.MakeVectors(2)
	if err != nil {
		t.Fatal(err)
	}
	do := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	do("init", tr.Init(ctx, params))
	do("load", tr.Load(ctx, params))
	for slot := uint64(1); slot <= 20; slot++ {
		stats, err := tr.Train(ctx, trainer.Task{Slot: slot, Steps: 10, Part: slot, PartSteps: 10})
		do("train", err)
		if stats.Steps != 10 || stats.Tokens != 160 {
			t.Fatalf("%+v", stats)
		}
		do("export", tr.ExportGradient(ctx, params, local, func(int, int) error { return nil }))
		for i := range params {
			params[i] -= local[i] // sgd with rate 1: the peer's own parameters
		}
		do("load", tr.Load(ctx, params))
	}
	loss, err := tr.Evaluate(ctx)
	if err != nil || loss > 1e-3 || math.Abs(float64(params[0])-3) > .1 || math.Abs(float64(params[1])+1) > .1 {
		t.Errorf("loss %v, %v, y = %v", loss, err, params)
	}
	if err := tr.SaveRanks(ctx, t.TempDir()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("save: %v", err)
	}
	server.End(wire.CodeEnded, "the run has ended")
	out, err := wait()
	if err != nil || !strings.Contains(out, "the run has ended: y = ") || !strings.Contains(out, "slot 20: 10 steps") {
		t.Errorf("%v: %s", err, out)
	}
}

// loaded is the trainer of the example, with its parameters loaded. Its context ends in a minute.
func loaded(t *testing.T, server *attach.Server) (context.Context, *attach.Trainer, []float32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	tr, err := server.Trainer(ctx)
	if err != nil {
		t.Fatal(err)
	}
	params, _, err := tr.MakeVectors(2)
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Load(ctx, params); err != nil {
		t.Fatal(err)
	}
	return ctx, tr, params
}

// TestTheClientGoesOnWhereItWas: a program and its node are gone before a slot is agreed, and the
// next ones begin that round again with the state that it had begun with. When the slot is agreed
// while they are gone, they have that of the round's end.
func TestTheClientGoesOnWhereItWas(t *testing.T) {
	program, dir := compile(t, "testdata/keeps.c"), t.TempDir()
	for _, slots := range [][]uint64{{0, 1, 2}, {2, 3}, {4}} {
		server, err := attach.Listen(attach.Config{DataDir: dir, Run: "test"})
		if err != nil {
			t.Fatal(err)
		}
		wait := start(t, server, program)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		tr, err := server.Trainer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		tr.Joined(wire.Info{Mode: "sync"})
		params, _, err := tr.MakeVectors(2)
		for _, slot := range slots {
			at := trainer.Anchor{Slot: slot, Root: [32]byte{byte(slot)}, Step: 10 * slot, TotalSteps: 40}
			tr.BeginAt(at)
			err = errors.Join(err, tr.Load(ctx, params))
			stats, trained := tr.Train(ctx, trainer.Task{Slot: slot + 1, Steps: 10, Step: at.Step, TotalSteps: 40})
			if stats.Tokens != 10*slot+10 || stats.Samples != at.Step || errors.Join(err, trained) != nil {
				t.Errorf("slot %d: %+v, %v", slot+1, stats, errors.Join(err, trained))
			}
		}
		cancel()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if out, err := wait(); err == nil {
			t.Errorf("the program has ended well: %s", out)
		}
	}
}

// Steps are given up at a look, and the next ones go on.
func TestExampleGivesUp(t *testing.T) { testGivesUp(t, example) }

// TestLooksBetweenTheSteps: a trainer that says every second step never came to the look after the
// first one. It was not asked any more, and gave up nothing.
func TestLooksBetweenTheSteps(t *testing.T) { testGivesUp(t, "testdata/leaps.c") }

func testGivesUp(t *testing.T, source string) {
	t.Helper()
	server := listen(t)
	start(t, server, compile(t, source))
	ctx, tr, params := loaded(t, server)
	short, stop := context.WithTimeout(ctx, time.Second/2)
	defer stop()
	if _, err := tr.Train(short, trainer.Task{Slot: 1, Steps: 1 << 40, PartSteps: 1 << 40}); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Fatalf("train: %v", err)
	}
	if err := tr.Load(ctx, params); err != nil {
		t.Fatal(err)
	}
	if stats, err := tr.Train(ctx, trainer.Task{Slot: 2, Steps: 3, PartSteps: 3}); err != nil || stats.Steps != 3 {
		t.Fatalf("%+v, %v", stats, err)
	}
}

// The node's last word is the client's error.
func TestExampleSaysWhatTheNodeSaid(t *testing.T) {
	server := listen(t)
	server.End(wire.CodeClosed, "the node was asked to leave the run")
	out, err := start(t, server, compile(t, example))()
	if err == nil || out != "attach: the node was asked to leave the run\n" {
		t.Errorf("%v: %q", err, out)
	}
}

// What the node says while the steps are done is the client's error, too: the border after a step
// that found it out returns it, and not that the node is gone.
func TestExampleSaysWhatTheNodeSaidInTheMidstOfSteps(t *testing.T) {
	server := listen(t)
	wait := start(t, server, compile(t, example))
	ctx, tr, _ := loaded(t, server)
	time.AfterFunc(time.Second/5, func() { server.Dismiss(wire.CodeTimeout, "rank 0 of 1 has not moved") })
	if _, err := tr.Train(ctx, trainer.Task{Slot: 1, Steps: 1 << 40, PartSteps: 1 << 40}); !errors.Is(err,
		trainer.ErrAnew) {
		t.Errorf("train: %v", err)
	}
	out, err := wait()
	if err == nil || !strings.HasSuffix(out, "attach: rank 0 of 1 has not moved\n") {
		t.Errorf("%v: %q", err, out)
	}
}

// TestSeveralRanksNeedASet: without a set each rank was a trainer of its own. One had the node, and
// the others heard for a minute that it is busy.
func TestSeveralRanksNeedASet(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), compile(t, "testdata/no_set.c")).CombinedOutput()
	if want := "1 several ranks, and no set: give all of them the same text"; !strings.HasPrefix(string(out), want) {
		t.Errorf("%s, %v", out, err)
	}
}

// TestPiecesNeedAnExport: without one all of params was written, over the parts of the other ranks.
func TestPiecesNeedAnExport(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), compile(t, "testdata/pieces.c")).CombinedOutput()
	if want := "1 pieces are given, and no export_range: give it"; !strings.HasPrefix(string(out), want) {
		t.Errorf("%s, %v", out, err)
	}
}
