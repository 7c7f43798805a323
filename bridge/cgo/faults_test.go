//go:build cgo && unix

package cgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// calls are what a life of a trainer goes through after Open, as the node asks for it.
func calls(ctx context.Context, p Library, dir string) error {
	x := make([]float32, p.Layout().Elements())
	file := filepath.Join(dir, "state")
	for _, call := range []func() error{
		func() error { return p.Init(ctx, x) },
		func() error { return p.Load(ctx, x) },
		func() error { _, err := p.Evaluate(ctx); return err },
		func() error { _, err := p.Train(ctx, task(3, 5)); return err },
		func() error { return p.Export(ctx, x) },
		func() error { return p.ExportGradient(ctx, x, x, func(int, int) error { return nil }) },
		func() error { return p.Save(ctx, file) },
		func() error { return p.Restore(ctx, file) },
		p.Close,
	} {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}

// ends runs a process that goes through a trainer's life, and says how it has ended, and what it
// has printed.
func ends(t *testing.T, cfg Config, environment string) (status syscall.WaitStatus, printed string) {
	t.Helper()
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), asChild+"="+string(text), "P2PDILOCO_BAD="+environment)
	out, _ := cmd.CombinedOutput()
	return cmd.ProcessState.Sys().(syscall.WaitStatus), string(out)
}

// inEvery are the functions of a library, and how they are named.
var inEvery = []struct{ function, doing string }{
	{"constructor", "load"},
	{"entry", "p2pdiloco_trainer_entry"},
	{"create", "create"},
	{"layout", "layout"},
	{"register_memory", "register_memory"},
	{"init", "init"},
	{"load", "load"},
	{"evaluate", "evaluate"},
	{"run", "run for slot 3"},
	{"export_params", "export_params"},
	{"export_gradient", "export_gradient"},
	{"save", "save"},
	{"restore", "restore"},
	{"unregister_memory", "destroy"},
	{"destroy", "destroy"},
}

// TestCrashes: whatever ends the process in a call, it ends by a signal, never with a status that
// says something else. The next one knows in which call that was.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for _, f := range inEvery {
		for how, signal := range map[string]syscall.Signal{
			"crash": syscall.SIGABRT, "abort": syscall.SIGABRT, "exit": syscall.SIGABRT, "killed": syscall.SIGKILL,
			"wild": syscall.SIGABRT, // it gives an address at which there is nothing
		} {
			if how == "wild" && f.function != "layout" {
				continue
			}
			t.Run(f.function+"/"+how, func(t *testing.T) {
				t.Parallel()
				way := fmt.Sprintf(`{"size":100, "how":%q, "in":%q}`, how, f.function)
				cfg := config(t, "bad", way)
				status, printed := ends(t, cfg, way)
				if !status.Signaled() || status.Signal() != signal {
					t.Fatalf("it ended with %v (status %d): %s", status.Signal(), status.ExitStatus(), printed)
				}
				if got := lastCall(cfg.DataDir); got != f.doing {
					t.Errorf("the next one says that it ended in %q", got)
				}
				want := map[string]string{
					"crash": "SIGSEGV", "wild": "SIGSEGV", "abort": "SIGABRT", "exit": "has called exit(): ",
				}[how]
				if !strings.Contains(printed, want) {
					t.Errorf("it printed %s", printed)
				}
			})
		}
	}
}

// TestALibrarysThreadExits: also between calls that is no end of the peer's own.
func TestALibrarysThreadExits(t *testing.T) {
	t.Parallel()
	cfg := config(t, "bad", `{"how":"slow thread", "in":"run"}`)
	if status, printed := ends(t, cfg, ""); !status.Signaled() || !strings.Contains(printed, "has called exit()") {
		t.Errorf("it ended with status %d: %s", status.ExitStatus(), printed)
	}
}

// TestACallerThatIsLate: a context that has ended is an error of the next call.
func TestACallerThatIsLate(t *testing.T) {
	t.Parallel()
	p := open(t, "bowl", "")
	x := started(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		if err := p.Export(ctx, x); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if _, err := Open(ctx, config(t, "bowl", "")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestHangs: a call that makes no progress ends the process, and the call is named. A trainer that
// cannot be destroyed only costs an error: its peer is leaving.
func TestHangs(t *testing.T) {
	t.Parallel()
	for _, f := range inEvery {
		t.Run(f.function, func(t *testing.T) {
			t.Parallel()
			way := fmt.Sprintf(`{"size":100, "how":"hang", "in":%q}`, f.function)
			cfg := config(t, "bad", way)
			cfg.Timeout = 300 * time.Millisecond
			status, printed := ends(t, cfg, way)
			closes := f.function == "unregister_memory" || f.function == "destroy"
			if status.Signaled() == closes || closes && status.ExitStatus() != 1 ||
				!closes && (status.Signal() != syscall.SIGABRT || lastCall(cfg.DataDir) != f.doing) {
				t.Errorf("it ended with %v", status)
			}
			if want := cfg.Path + ": " + f.doing + ": no progress for 300ms"; !strings.Contains(printed, want) ||
				f.function == "run" && !strings.Contains(printed, "; 2 of 5 steps") {
				t.Errorf("it printed %s", printed)
			}
		})
	}
}

// fault opens a misbehaving library, uses it until it fails, and returns that error: one line that
// names the library.
func fault(t *testing.T, cfg Config, environment string) error {
	t.Helper()
	t.Setenv("P2PDILOCO_BAD", environment)
	p, err := Open(t.Context(), cfg)
	if err == nil {
		err = calls(t.Context(), p, t.TempDir())
		if closing := p.Close(); closing != nil && !errors.Is(err, closing) {
			t.Errorf("after %v, Close says %v", err, closing)
		}
	}
	if err == nil {
		t.Error("nothing was noticed")
		return nil
	}
	var f *Fault
	if line := err.Error(); !errors.As(err, &f) || !strings.HasPrefix(line, cfg.Path+": ") ||
		strings.ContainsAny(line, "\n\r\x1b") || !utf8.ValidString(line) || len(line) > 1000 {
		t.Errorf("no clear line: %q", line)
	}
	return err
}

// TestFaults are what a library says that cannot be, and what it says that failed.
func TestFaults(t *testing.T) {
	cases := []struct{ environment, how, in, want string }{
		{"null-table", "", "", "p2pdiloco_trainer_entry: it says that it cannot serve trainer ABI 1"},
		{"other-abi", "", "", "p2pdiloco_trainer_entry: it speaks trainer ABI 2, this program 1"},
		{"small-table", "", "", "p2pdiloco_trainer_entry: its table of functions has 64 bytes"},
		{"no-size", "", "", "p2pdiloco_trainer_entry: its table of functions has 0 bytes"},
		{"no-run", "", "", "p2pdiloco_trainer_entry: its table of functions lacks run"},
		{"", "nothing", "create", "create: create says that it made a trainer, and gives none"},
		{"", "long", "create", "create: xxxxxxxxx"},
		{"", "no-tensors", "layout", "layout: its layout has 0 tensors"},
		{"", "many-tensors", "layout", "layout: its layout has 1048576 tensors"},
		{"", "dimensions", "layout", `layout: tensor 1: "bias" has type 1 and 9 dimensions`},
		{"", "zero", "layout", `layout: tensor "bias" has shape [0]`},
		{"", "huge", "layout", "register_memory: two vectors of 2199023259648 bytes: "},
		{"", "overflow", "layout", `layout: tensor "bias" has shape [9223372036854775808]`},
		{"", "not-utf8", "layout", `layout: tensor name "\xff\xfe": 1 to 256 bytes of UTF-8`},
		{"", "empty-name", "layout", `layout: tensor name ""`},
		{"", "twice", "layout", `layout: tensor "x" is listed twice`},
		{"", "type", "layout", `layout: tensor 1: "bias" has type 9 and 0 dimensions`},
		{"", "small", "layout", "layout: tensor 0 of its layout says that it has 8 bytes"},
		{"", "nan", "init", `init: element 99 (tensor "bias") is NaN`},
		{"", "nan", "evaluate", "evaluate: the held-out loss is NaN"},
		{"", "too-many", "run", "run for slot 3: it says that it did 6 steps of 5"},
		{"", "no-steps", "run", "run for slot 3: it says that it did 0 steps of 5"},
		{"", "no-weight", "run", "run for slot 3: it says that it processed no tokens"},
		{"", "nan-loss", "run", "run for slot 3: the training loss is NaN"},
		{"", "nan-seconds", "run", "run for slot 3: it says that it took NaN seconds"},
		{"", "cancelled", "run", "run for slot 3: it reports that it was cancelled"},
		{"", "cancelled", "load", "load: it reports that it was cancelled"},
	}
	for _, f := range inEvery[2:13] {
		cases = append(cases, struct{ environment, how, in, want string }{
			"", "fail", f.function, f.doing + ": the data are [31mgone \uFFFD",
		})
	}
	for _, c := range cases {
		t.Run(c.environment+c.in+"/"+c.how, func(t *testing.T) {
			cfg := config(t, "bad", `{"size":100, "how":"`+c.how+`", "in":"`+c.in+`"}`)
			if err := fault(t, cfg, c.environment); err == nil ||
				!strings.HasPrefix(err.Error(), cfg.Path+": "+c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestNoLibrary: what is given is no trainer library.
func TestNoLibrary(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.so")
	if err := os.WriteFile(text, []byte("this is no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(built, "none.so"): ": open: there is no such file",
		built:                           ": open: this is a folder",
		text:                            ": load: ",
		libraryFile("empty"):            ": p2pdiloco_trainer_entry: it exports no p2pdiloco_trainer_entry",
	} {
		cfg := config(t, "bowl", "")
		cfg.Path = path
		if err := fault(t, cfg, ""); err == nil || !strings.HasPrefix(err.Error(), path+want) ||
			strings.Count(err.Error(), path) != 1 {
			t.Errorf("got %v", err)
		}
	}
	cfg := config(t, "bowl", `{"size": 1}`)
	if err := fault(t, cfg, ""); err == nil || err.Error() != cfg.Path+": create: size 1: 2 to 1e9 is allowed" {
		t.Errorf("got %v", err)
	}
}

// TestNotFinite: a parameter that is no number is named before anything is made of it.
func TestNotFinite(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"nan-parameter": `element 5 (tensor "x") is NaN`,
		"inf-parameter": `element 99 (tensor "bias") is +Inf`,
	} {
		p := open(t, "bad", `{"size":100, "how":"`+how+`", "in":"run"}`)
		x := started(t, p)
		if _, err := p.Train(t.Context(), task(1, 1)); err != nil {
			t.Fatal(err)
		}
		if err := p.Export(t.Context(), x); !errors.Is(err, trainer.ErrNotFinite) ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// TestFaultIsFinal: after a fault every call gives the same one, and none reaches the library.
func TestFaultIsFinal(t *testing.T) {
	t.Parallel()
	p := open(t, "bad", `{"size":100, "how":"fail", "in":"load"}`)
	x := make([]float32, 100)
	first := p.Load(t.Context(), x)
	if second := p.Export(t.Context(), x); first == nil || !errors.Is(second, first) {
		t.Errorf("first %v, then %v", first, second)
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close says %v again", err)
	}
	p = open(t, "bad", `{"size":100, "how":"fail", "in":"save"}`)
	err := p.Save(t.Context(), filepath.Join(t.TempDir(), "x"))
	if err == nil || p.Load(t.Context(), make([]float32, 100)) != nil {
		t.Errorf("a save that failed (%v) ended the trainer", err)
	}
}
