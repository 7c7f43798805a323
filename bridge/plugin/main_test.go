//go:build cgo && unix

package plugin

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// asPeer makes the test binary a peer that a test kills: see TestPeerDies.
const asPeer = "P2PDILOCO_TEST_PEER"

// built are the libraries of testdata.
var built string

func TestMain(m *testing.M) {
	if os.Getenv(asPeer) != "" {
		bePeer()
	}
	testlevel.Parallel(6)
	dir, err := os.MkdirTemp("", "p2pdiloco-plugin-test-")
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

func library(name string) string { return filepath.Join(built, name+".so") }

// output keeps what a trainer prints, for a test that fails.
type output struct {
	mu struct {
		sync.Mutex
		bytes.Buffer
	}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.String()
}

// config is one for a test: with patience of a minute, and output that shows only if the test
// fails.
func config(t *testing.T, name, text string) Config {
	t.Helper()
	out := &output{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the trainer printed: %s", out)
		}
	})
	return Config{Path: library(name), Config: text, DataDir: t.TempDir(), Timeout: time.Minute, Stderr: out, Seed: 7}
}

// open opens a library that must open, and closes it when the test ends.
func open(t *testing.T, name, text string) *Trainer {
	t.Helper()
	return openConfig(t, config(t, name, text))
}

func openConfig(t *testing.T, cfg Config) *Trainer {
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
func started(t *testing.T, p *Trainer) []float32 {
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

// bePeer opens a trainer that never ends its run and has started a process, prints its process's
// number, and waits to be killed.
func bePeer() {
	p, err := Open(context.Background(), Config{Path: os.Getenv(asPeer), Config: `{"how":"deaf forks", "in":"run"}`})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	go func() { _, _ = p.Train(context.Background(), task(1, 1000)) }()
	for p.StepsDone() == 0 {
		time.Sleep(time.Millisecond) // no test: a process that a test waits for
	}
	fmt.Println(p.process.cmd.Process.Pid)
	select {}
}
