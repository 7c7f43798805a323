//go:build unix

package attach

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
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// program is testdata/client.c, compiled for all tests in a folder that TestMain removes. The
// sanitizers stop it at a fault.
var program = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(built, "client")
	return path, compile("cc", "-std=c11", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover",
		"-DP2PA_QUIET=1", "-o", path, "testdata/client.c")
})

// compile runs a compiler, for which every warning is an error.
func compile(compiler string, args ...string) error {
	args = append(args, "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", "../include")
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// TestTheHeader: it is C11, and C++.
func TestTheHeader(t *testing.T) {
	t.Parallel()
	for compiler, args := range map[string][]string{"cc": {"-x", "c", "-std=c11"}, "c++": {"-x", "c++", "-std=c++11"}} {
		if _, err := exec.LookPath(compiler); err != nil {
			t.Skip(err)
		}
		do(t, compile(compiler, append(args, "-fsyntax-only", "../include/p2pdiloco_attach.h")...))
	}
}

// client is the program in one of its modes, and what it prints.
func client(t *testing.T, socket string, args ...string) (cmd *exec.Cmd, out, warnings *bytes.Buffer) {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip(err)
	}
	program, err := program()
	do(t, err)
	cmd = exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), Variable+"="+socket)
	out, warnings = new(bytes.Buffer), new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, warnings
	return cmd, out, warnings
}

// wantOutput runs a mode that needs no node.
func wantOutput(t *testing.T, want []string, args ...string) {
	t.Helper()
	cmd, out, errs := client(t, "", args...)
	if err := cmd.Run(); err != nil || out.String() != strings.Join(want, "\n")+"\n" {
		t.Errorf("%v, %s\n%s\nwant\n%s", err, errs, out, strings.Join(want, "\n"))
	}
}

// TestGoldenBytes: every golden message is packed by the client, or read by it, and what is none is
// refused.
func TestGoldenBytes(t *testing.T) {
	t.Parallel()
	takes := map[string]string{
		"welcome": "2 1 1=65536 2:my-run 3:/data/my-run 4=4711", "share": "4 2 1=24577 2=65536 3=163844 4=3 5:\x01",
		"info":       `5 0 1:abcd 2:12D3 3:sync 4=500 5=100 6:{"name":"my-run"}`,
		"info-ended": "5 0 1:abcd 2:12D3 3:sync 4=500 5=100 7=100 8:4b88",
		"fill":       "16 1", "load": "17 2 2=24577 3=2", "load-range": "17 3 1=96 2=192 3=4",
		"export": "18 4 1=96 2=192 3=2", "evaluate": "19 5", "evaluate-prompt": "19 5 1:Once upon",
		"restore":       "21 7 1:/data/my-run/trainer/3 2=2",
		"train":         "22 8 1=4 2=500 3=12 4=1 5=7 6=1 7=3 8=10 9=500 10=20 11=5",
		"train-save":    "22 8 1=1 2=1 7=1 13:/data/my-run/trainer/3-0-0-1-5e5e",
		"train-step":    "22 8 1=3 2=500 7=1 14=1000 15=10000",
		"train-members": "22 8 1=1 2=1 7=2 12:12D3a\n12D3b", "go": "26 9 2=24", "go-give-up": "26 9 1=1",
		"notice": "32 0 1=1 2:no quorum: paused", "pong": "34 10",
		"error": "36 0 1=4 2:pid 71 trains this run here: give data_dir= for a second peer",
	}
	files, err := filepath.Glob("testdata/wire/*.hex")
	if do(t, err); len(files) < 30 {
		t.Fatal(files)
	}
	dir, packs, packed := t.TempDir(), []string{"pack"}, []string(nil)
	reads, read := []string{"read"}, []string(nil)
	expect := func(name string, raw []byte, want string) {
		path := filepath.Join(dir, name)
		do(t, os.WriteFile(path, raw, 0o600))
		reads, read = append(reads, path), append(read, name+" "+want)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		do(t, err)
		name, digits := strings.TrimSuffix(filepath.Base(file), ".hex"), strings.Join(strings.Fields(string(text)), "")
		raw, err := hex.DecodeString(digits)
		switch do(t, err); {
		case takes[name] != "":
			expect(name, raw, takes[name])
		case name != "ping" && name != "hello-saves": // the C client sends none
			packs, packed = append(packs, name), append(packed, name+" "+digits)
		}
		if name == "load" {
			long, twice := bytes.Clone(raw), append(bytes.Clone(raw), raw[16:32]...)
			long[20] = 0xff // bytes of the first field
			twice[0] += 16  // of the body
			expect("torn", raw[:25], "the node of this machine is gone: attach again when it is back")
			expect("long", long, "the node sent bytes that are no message")
			expect("twice", twice, "17 2 2:\x01` 3=2")
		}
	}
	wantOutput(t, packed, packs...)
	wantOutput(t, read, reads...)
}

// TestTheClientRefuses: without a set each rank of several was a trainer of its own. One had the
// node, and the others heard for a minute that it is busy. Without an export of pieces all of
// params was written, over the parts of the other ranks.
func TestTheClientRefuses(t *testing.T) {
	t.Parallel()
	wantOutput(t, []string{
		"2 several ranks, and no set: give all of them the same text, and another one at every start",
		"2 pieces are given, and no export_range: give it, because only it knows where they lie; without it all of " +
			"params is written",
	}, "refused")
}

// do fails where something did.
func do(t testing.TB, all ...error) {
	t.Helper()
	if err := errors.Join(all...); err != nil {
		t.Fatal(err)
	}
}

// node is the node's side of a run of the client.
type node struct {
	*Server
	*Trainer
	params, local []float32
	client        *exec.Cmd
	out, warnings *bytes.Buffer
}

// begin has a client attach.
func begin(t *testing.T, dir string, args ...string) *node {
	t.Helper()
	server, err := Listen(Config{DataDir: dir, Run: "test", Looks: 20 * time.Millisecond})
	do(t, err)
	t.Cleanup(func() { do(t, server.Close()) })
	n := &node{Server: server}
	n.client, n.out, n.warnings = client(t, server.Path(), args...)
	do(t, n.client.Start())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n.Trainer, err = server.Trainer(ctx)
	do(t, err)
	n.params, n.local, err = n.MakeVectors(int(n.Layout().Elements()))
	do(t, err)
	return n
}

// wantEnd waits for the client.
func (n *node) wantEnd(t *testing.T, fails bool, last string) {
	t.Helper()
	err := n.client.Wait()
	if said := n.out.String() + n.warnings.String(); (err != nil) != fails || !strings.HasSuffix(said, last) {
		t.Errorf("it has ended with %v, want %q:\n%s", err, last, said)
	}
}

var endless = trainer.Task{Slot: 21, Steps: 1 << 40, PartSteps: 1 << 40}

// givesUp has the client give up its steps, and do others.
func (n *node) givesUp(t *testing.T) {
	t.Helper()
	short, stop := context.WithTimeout(t.Context(), time.Second/4)
	defer stop()
	if _, err := n.Train(short, endless); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("train: %v", err)
	}
	do(t, n.Load(t.Context(), n.params))
	stats, err := n.Train(t.Context(), trainer.Task{Slot: 22, Steps: 3, PartSteps: 3})
	if do(t, err); stats.Steps != 3 {
		t.Fatalf("%+v", stats)
	}
}

// TestExample: it fills, loads, does its steps, shows the pseudo-gradient, evaluates, moves a part
// of the model alone, and loads the final model. It gives steps up at a look, and goes on with the
// next ones. What the node says is its error, also where a border after a step found out that the
// node is gone.
func TestExample(t *testing.T) {
	t.Parallel()
	n, ctx := begin(t, t.TempDir()), t.Context()
	params, local := n.params, n.local
	do(t, n.Init(ctx, params), n.Load(ctx, params))
	for slot := uint64(1); slot <= 20; slot++ {
		stats, err := n.Train(ctx, trainer.Task{Slot: slot, Steps: 10, Part: slot, PartSteps: 10})
		if do(t, err); stats.Steps != 10 || stats.Tokens != 160 {
			t.Fatalf("%+v", stats)
		}
		do(t, n.ExportGradient(ctx, params, local, func(int, int) error { return nil }))
		for i := range params {
			params[i] -= local[i] // sgd with rate 1: the peer's own parameters
		}
		do(t, n.Load(ctx, params))
	}
	loss, err := n.Evaluate(ctx)
	if err != nil || loss > 1e-3 || math.Abs(float64(params[0])-3) > .1 || math.Abs(float64(params[1])+1) > .1 {
		t.Errorf("loss %v, %v, y = %v", loss, err, params)
	}
	w, b := params[0], params[1]
	local[0], params[0], params[1] = 7, 8, 9
	do(t, n.ExportGradientRange(ctx, 1, nil, local[1:]), n.LoadRange(ctx, 1, params[1:]))
	if local[0] != 7 || local[1] != 9-b {
		t.Errorf("a part is exported, and local is %v", local)
	}
	if do(t, n.ExportRange(ctx, 0, local)); local[0] != w || local[1] != 9 {
		t.Errorf("a part is loaded, and the model is %v", local)
	}
	n.givesUp(t)
	do(t, n.ExportRange(ctx, 0, local))
	end := fmt.Sprintf("the run has ended: y = %.4f x + %.4f\n", local[0], local[1])
	n.End(wire.CodeEnded, "the run has ended")
	n.wantEnd(t, false, end)

	n = begin(t, t.TempDir())
	do(t, n.Load(ctx, n.params))
	time.AfterFunc(time.Second/5, func() { sendAway(n.Server) })
	if _, err := n.Train(ctx, endless); !errors.Is(err, trainer.ErrAnew) {
		t.Errorf("train: %v", err)
	}
	n.wantEnd(t, true, "attach: rank 0 of 1 has not moved\n")
	n.End(wire.CodeClosed, "the node was asked to leave the run")
	late, _, said := client(t, n.Path())
	if err := late.Run(); err == nil || said.String() != "attach: the node was asked to leave the run\n" {
		t.Errorf("%v: %q", err, said)
	}
}

// TestTheClientGoesOnWhereItWas: a program and its node are gone before a slot is agreed, and the
// next ones begin that round again with the state that it had begun with. When the slot is agreed
// while they are gone, they have that of the round's end. This one says every second step: it never
// came to the look after the first one, was not asked any more, and gave up nothing. Of its memory,
// nothing but the model is as large as that.
func TestTheClientGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	dir, ctx := t.TempDir(), t.Context()
	for _, slots := range [][]uint64{{0, 1, 2}, {2, 3}, {4}} {
		n := begin(t, dir, "train", "60", "1", "keep")
		n.Joined(wire.Info{Mode: "sync"})
		for _, slot := range slots {
			at := trainer.Anchor{Slot: slot, Root: [32]byte{byte(slot)}, Step: 10 * slot, TotalSteps: 40}
			n.BeginAt(at)
			do(t, n.Load(ctx, n.params))
			stats, err := n.Train(ctx, trainer.Task{Slot: slot + 1, Steps: 10, Step: at.Step, TotalSteps: 40})
			if stats.Tokens != 10*slot+10 || stats.Samples != at.Step || err != nil {
				t.Errorf("slot %d: %+v, %v", slot+1, stats, err)
			}
		}
		if slots[0] == 4 {
			n.givesUp(t)
		}
		do(t, n.Close())
		n.wantEnd(t, false, "2 the node has ended\n")
	}
}
