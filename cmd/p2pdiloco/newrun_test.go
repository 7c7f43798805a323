//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// TestTheLastOfFourFoundsANewRun: of four electors of a run of trust byzantine three are lost with
// their data. The one that is left pauses and says what to do. Done as it stands there, that founds
// a new run from the dead run's model, with an outer momentum of 0; a newcomer finds the new run,
// and both go on with equal models.
func TestTheLastOfFourFoundsANewRun(t *testing.T) {
	t.Parallel()
	c := &crowd{t: t, name: swarm.RunName("dead"), data: smallData(t), listen: onLoopback}
	home := t.TempDir()
	file := filepath.Join(home, "addrs")
	_ = clitest.Start(t, home, append([]string{"bootstrap", "--addr-file", file}, onLoopback...)...)
	clitest.Until(t, "the address file", func() bool {
		b, _ := os.ReadFile(file)
		c.boot, _, _ = strings.Cut(string(b), "\n")
		return c.boot != ""
	})
	founding := []string{
		"--run", c.name, "--start-peers", "4", "--trust", "byzantine", "--rounds", "1000", "--inner-steps", "1",
	}
	var dirs []string
	for i := range 4 {
		dirs = append(dirs, filepath.Join(home, fmt.Sprint(i)))
		p, events := c.joins(dirs[i], founding...)
		c.peers, c.events = append(c.peers, p), append(c.events, events)
	}
	c.goOn(2)
	for i, p := range c.peers[1:] {
		if err := p.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		p.Ends(t)
		if err := os.RemoveAll(dirs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	var advice string
	clitest.Until(t, "the advice to found a new run", func() bool {
		status := clitest.Start(t, home, "status", "--data-dir", dirs[0])
		code := status.Ends(t)
		_, after, found := strings.Cut(status.Out.String(), "the outer momentum begins at 0 there: ")
		advice, _, _ = strings.Cut(after, "\n")
		return code == cli.ExitOK && found
	})
	forced := clitest.Start(t, home, "recover", "--yes", "--data-dir", dirs[0])
	if code := forced.Ends(t); code != cli.ExitFailed || !strings.Contains(forced.Err.String(), advice) {
		t.Errorf("ordered to recover: exit %d, %s", code, &forced.Err)
	}
	if err := c.peers[0].Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	c.peers[0].Ends(t)

	model, name := filepath.Join(home, "model.safetensors"), swarm.RunName("new")
	names := strings.NewReplacer("DIR", dirs[0], "FILE", model, "NAME", name)
	commands := strings.Split(names.Replace(advice), ", then ")
	if len(commands) != 2 {
		t.Fatalf("it says %q", advice)
	}
	words := func(command string) []string { return strings.Fields(command)[1:] }
	export := clitest.Start(t, home, words(commands[0])...)
	if code := export.Ends(t); code != cli.ExitOK {
		t.Fatalf("%s: exit %d, %s", commands[0], code, &export.Err)
	}
	anew := filepath.Join(home, "anew")
	left, here := c.joins(anew, slices.Concat(words(commands[1])[1:], []string{
		"--trust", "byzantine", "--inner-steps", "1", "--checkpoint-every", "1", "--keep-checkpoints", "1000",
	})...)
	applies(t, here, 1)
	begins := filepath.Join(home, "begins.safetensors")
	again := clitest.Start(t, home, "export", "--data-dir", anew, "--slot", "0", "--with-momentum", "--out", begins)
	if code := again.Ends(t); code != cli.ExitOK {
		t.Fatalf("exit %d, %s", code, &again.Err)
	}
	sameModel(t, model, begins)

	fresh, there := c.joins(filepath.Join(home, "fresh"), "--run", name)
	applies(t, there, 2)
	sameRoots(t, here, there)
	leave(t, left, fresh)
}

// joins starts a peer, with more settings.
func (c *crowd) joins(dir string, more ...string) (p *clitest.Program, events string) {
	c.t.Helper()
	home := c.t.TempDir()
	events = filepath.Join(home, "events")
	args := []string{
		"join", "--preset", "lan", "--bootstrap", c.boot, "--data", c.data, "--data-dir", dir, "--events", events,
	}
	return clitest.Start(c.t, home, slices.Concat(args, more, tiny, c.listen)...), events
}

// sameModel wants the tensors of one file in another one that has, besides, an outer momentum of
// zeros.
func sameModel(t *testing.T, one, two string) {
	t.Helper()
	open := func(path string) *safetensors.File {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		s, err := safetensors.Open(f, info.Size())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	want, got := open(one), open(two)
	if len(got.Tensors) != 2*len(want.Tensors) {
		t.Errorf("%d tensors with the momentum, %d without", len(got.Tensors), len(want.Tensors))
	}
	read := func(f *safetensors.File, name string, shape []uint64) []float32 {
		layout := trainer.Layout{{Name: name, Shape: shape}}
		values := make([]float32, layout.Elements())
		if err := f.Read(values, layout); err != nil {
			t.Fatal(err)
		}
		return values
	}
	for _, tensor := range want.Tensors {
		n := tensor.Shape
		if !slices.Equal(read(got, tensor.Name, n), read(want, tensor.Name, n)) {
			t.Errorf("tensor %s is another one", tensor.Name)
		}
		if slices.ContainsFunc(read(got, "p2pdiloco.outer.0."+tensor.Name, n), func(m float32) bool { return m != 0 }) {
			t.Errorf("the momentum of %s is not 0", tensor.Name)
		}
	}
}

// sameRoots wants slots that both peers have applied, with equal state roots.
func sameRoots(t *testing.T, one, two string) {
	t.Helper()
	roots, shared := map[uint64]string{}, 0
	for _, e := range lines(t, one) {
		if e.Event == "slot.applied" {
			roots[e.Slot] = e.StateRoot
		}
	}
	for _, e := range lines(t, two) {
		if root, ok := roots[e.Slot]; ok && e.Event == "slot.applied" {
			shared++
			if root != e.StateRoot {
				t.Errorf("slot %d: state roots %s and %s", e.Slot, root, e.StateRoot)
			}
		}
	}
	if shared == 0 {
		t.Error("the peers share no slot")
	}
}
