//go:build cgo && unix

package cgo

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

func init() { testutil.OneCPU() }

// asChild makes the test binary a process that opens a library and uses it: see TestCrashes.
const asChild = "P2PDILOCO_TEST_CHILD"

// built are the libraries of testdata.
var built string

func TestMain(m *testing.M) {
	if text := os.Getenv(asChild); text != "" {
		os.Exit(beChild(text))
	}
	testutil.Parallel(4)
	dir, err := os.MkdirTemp("", "p2pdiloco-cgo-test-")
	if err == nil {
		built = dir
		err = compile("bowl", "bad", "empty")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// compile builds testdata/NAME.c with the compiler that cgo needs anyway.
func compile(names ...string) error {
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	var group sync.WaitGroup
	failures := make(chan error, len(names))
	for _, name := range names {
		group.Go(func() {
			cmd := exec.Command(compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-I../include",
				"-shared", "-fPIC", "-g", "-O1",
				"-o", filepath.Join(built, name+".so"), filepath.Join("testdata", name+".c"), "-lm")
			if out, err := cmd.CombinedOutput(); err != nil {
				failures <- fmt.Errorf("%s: %w\n%s", cmd, err, out)
			}
		})
	}
	group.Wait()
	close(failures)
	return <-failures
}

func libraryFile(name string) string { return filepath.Join(built, name+".so") }

// config is one for a test, with patience of a minute. The bad library's misbehaviour is the same
// for all that the process makes with one file: each test has a copy.
func config(t *testing.T, name, text string) Config {
	t.Helper()
	path := libraryFile(name)
	if name == "bad" {
		path = filepath.Join(t.TempDir(), "bad.so")
		b, err := os.ReadFile(libraryFile(name))
		if err == nil {
			err = os.WriteFile(path, b, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return Config{Path: path, Config: text, DataDir: t.TempDir(), Timeout: time.Minute, Seed: 7}
}

// open opens a library that must open, and closes it when the test ends.
func open(t *testing.T, name, text string) Library {
	t.Helper()
	return openConfig(t, config(t, name, text))
}

func openConfig(t *testing.T, cfg Config) Library {
	t.Helper()
	p, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// task is one for a peer that is alone.
func task(slot uint64, steps int) trainer.Task {
	return trainer.Task{Slot: slot, Steps: steps, Seed: 1, Self: "me", Members: []trainer.PeerID{"me"}}
}

// started loads the initial parameters, and returns them.
func started(t *testing.T, p Library) []float32 {
	t.Helper()
	x := make([]float32, p.Layout().Elements())
	if err := p.Init(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	if err := p.Load(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	return x
}

// beChild goes through a trainer's life, and returns the exit status.
func beChild(text string) int {
	var cfg Config
	err := json.Unmarshal([]byte(text), &cfg)
	ctx := context.Background()
	var p Library
	if err == nil {
		p, err = Open(ctx, cfg)
	}
	if err == nil {
		err = calls(ctx, p, cfg.DataDir)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
