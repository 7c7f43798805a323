//go:build cgo && unix

package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// impatience is the timeout of a trainer that hangs in a test.
const impatience = 5 * time.Second

// calls are what a life of a trainer goes through after Open, as the node asks for it.
func calls(ctx context.Context, p *Trainer, dir string) error {
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

// fault opens a misbehaving library, uses it until it fails, and returns that error: one line that
// names the library.
func fault(t *testing.T, cfg Config, environment string) error {
	t.Helper()
	if environment != "" {
		cfg.Wrap = []string{"/usr/bin/env", "P2PDILOCO_BAD=" + environment}
	}
	began := time.Now()
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
	if spent := time.Since(began); spent > 40*time.Second {
		t.Errorf("it took %v", spent)
	}
	return err
}

// inEvery are the functions of a library, and how a fault names them.
var inEvery = []struct{ function, doing string }{
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
}

// TestFaultsOfEveryFunction has every function crash, exit, hang, fail, and claim that it was
// cancelled.
func TestFaultsOfEveryFunction(t *testing.T) {
	t.Parallel()
	ways := []struct {
		how, want string
		is        error
	}{
		{"crash", "it crashed (SIGSEGV, segmentation fault", ErrCrashed},
		{"abort", "it crashed (SIGABRT, aborted", ErrCrashed},
		{"killed", "it was killed (SIGKILL)", ErrCrashed},
		{"exit", "it ended the process with exit status 3", ErrCrashed},
		{"hang", "no progress for ", ErrHung},
		{"waits", "no progress for ", ErrHung}, // and ends when it is cancelled
		{"fail", "the data are [31mgone \uFFFD", nil},
	}
	for _, f := range inEvery {
		for _, w := range ways {
			t.Run(f.function+"/"+w.how, func(t *testing.T) {
				t.Parallel()
				only := map[string]string{"abort": "run", "waits": "run", "killed": "load"}[w.how]
				if only != "" && only != f.function {
					return // one signal is as good as another
				}
				cfg := config(t, "bad", `{"size":100, "how":"`+w.how+`", "in":"`+f.function+`"}`)
				if w.how == "hang" || w.how == "waits" {
					cfg.Timeout = impatience
				}
				err := fault(t, cfg, "")
				if err == nil || !strings.Contains(err.Error(), ": "+f.doing+": "+w.want) || w.is != nil &&
					!errors.Is(err, w.is) {
					t.Errorf("got %v", err)
				}
				if w.is != nil && f.function == "run" && !strings.Contains(err.Error(), "after 2 of 5 steps") {
					t.Errorf("it does not say where: %v", err)
				}
			})
		}
	}
}

// TestOtherFaults are those of one function each.
func TestOtherFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ environment, how, in, want string }{
		{"null-table", "", "", "p2pdiloco_trainer_entry: it says that it cannot serve trainer ABI 1"},
		{"other-abi", "", "", "p2pdiloco_trainer_entry: it speaks trainer ABI 2, this program 1"},
		{"small-table", "", "", "p2pdiloco_trainer_entry: its table of functions has 64 bytes"},
		{"no-size", "", "", "p2pdiloco_trainer_entry: its table of functions has 0 bytes"},
		{"no-run", "", "", "p2pdiloco_trainer_entry: its table of functions lacks run"},
		{`crash "in":"constructor"`, "", "", "load: it crashed (SIGSEGV"},
		{`exit "in":"entry"`, "", "", "p2pdiloco_trainer_entry: it ended the process with exit status 3"},
		{"", "nothing", "create", "create: create says that it made a trainer, and gives none"},
		{"", "long", "create", "create: xxxxxxxxx"},
		{"", "no-tensors", "layout", "layout: its layout has 0 tensors"},
		{"", "many-tensors", "layout", "layout: its layout has 1048576 tensors"},
		{"", "dimensions", "layout", `layout: tensor 1: "bias" has 9 dimensions`},
		{"", "zero", "layout", `layout: tensor "bias" has shape [0]`},
		{"", "huge", "layout", "layout: too little memory: a vector that is shared with the trainer takes 2097"},
		{"", "overflow", "layout", `layout: tensor "bias" has shape [9223372036854775808]`},
		{"", "not-utf8", "layout", `layout: LAYOUT: field 1: malformed message: a tensor name of 2 bytes: at most 256`},
		{"", "empty-name", "layout", `layout: tensor name ""`},
		{"", "twice", "layout", `layout: tensor "x" is listed twice`},
		{"", "type", "layout", `layout: tensor 1: "bias" has the unknown type 9`},
		{"", "small", "layout", "layout: tensor 0 of its layout says that it has 8 bytes"},
		{"", "wild", "layout", "layout: it crashed (SIGSEGV"},
		{"", "nan", "init", `init: element 99 (tensor "bias", element 0) is NaN`},
		{"", "nan", "evaluate", "evaluate: the held-out loss is NaN"},
		{"", "too-many", "run", "run for slot 3: it says that it did 6 steps of 5"},
		{"", "no-steps", "run", "run for slot 3: it says that it did 0 steps of 5"},
		{"", "no-weight", "run", "run for slot 3: it says that it processed no tokens"},
		{"", "nan-loss", "run", "run for slot 3: the training loss is NaN"},
		{"", "nan-seconds", "run", "run for slot 3: it says that it took NaN seconds"},
		{"", "cancelled", "run", "run for slot 3: it reports that it was cancelled"},
		{"", "cancelled", "load", "load: it reports that it was cancelled"},
		{"", "forks session then-dies", "run", "run for slot 3: it crashed (SIGABRT"},
		{"", "crash", "destroy", "destroy: it crashed (SIGSEGV"},
		{"", "hang", "destroy", "destroy: no progress for 5s"},
	} {
		t.Run(c.environment+c.in+"/"+c.how, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, "bad", `{"size":100, "how":"`+c.how+`", "in":"`+c.in+`"}`)
			if c.how == "hang" {
				cfg.Timeout = impatience
			} else if strings.Contains(c.how, "session") {
				// its child keeps the socket open for longer
				cfg.Timeout = 2 * impatience
			}
			if err := fault(t, cfg, c.environment); err == nil ||
				!strings.HasPrefix(err.Error(), cfg.Path+": "+c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestNoLibrary: what is given is no trainer library.
func TestNoLibrary(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text.so")
	if err := os.WriteFile(text, []byte("this is no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(built, "none.so"): ": open: there is no such file",
		built:                           ": open: this is a folder",
		text:                            ": load: ",
		library("empty"):                ": p2pdiloco_trainer_entry: it exports no p2pdiloco_trainer_entry",
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
		"nan-parameter": `element 5 (tensor "x", element 5) is NaN`,
		"inf-parameter": `element 99 (tensor "bias", element 0) is +Inf`,
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
	for _, how := range []string{"crash", "fail"} {
		p := open(t, "bad", `{"size":100, "how":"`+how+`", "in":"load"}`)
		x := make([]float32, 100)
		first := p.Load(t.Context(), x)
		if second := p.Export(t.Context(), x); first == nil || !errors.Is(second, first) {
			t.Errorf("first %v, then %v", first, second)
		}
		if err := p.Close(); err != nil {
			t.Errorf("Close says %v again", err)
		}
	}
	p := open(t, "bad", `{"size":100, "how":"fail", "in":"save"}`)
	if err := p.Save(t.Context(), "x"); err == nil || p.Load(t.Context(), make([]float32, 100)) != nil {
		t.Errorf("a save that failed (%v) ended the trainer", err)
	}
}
