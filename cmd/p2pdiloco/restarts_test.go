//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// overQUIC are the flags that keep a test off every other network, and off TCP.
var overQUIC = []string{"--listen", "/ip4/127.0.0.1/udp/0/quic-v1"}

// crowd is a run of three peers, with a bootstrap node, to which others come.
type crowd struct {
	t      *testing.T
	name   string
	data   string
	boot   string   // its address
	listen []string // the flags that say where all listen
	peers  []*clitest.Program
	events []string // of the peers
}

func startCrowd(t *testing.T, listen []string) *crowd {
	t.Helper()
	home := t.TempDir()
	file := filepath.Join(home, "addrs")
	_ = clitest.Start(t, home, append([]string{"bootstrap", "--addr-file", file}, listen...)...)
	c := &crowd{t: t, name: swarm.RunName("restarts"), data: smallData(t), listen: listen}
	clitest.Until(t, "the address file", func() bool {
		b, _ := os.ReadFile(file)
		c.boot, _, _ = strings.Cut(string(b), "\n")
		return c.boot != ""
	})
	for range 3 {
		p, events := c.start("")
		c.peers, c.events = append(c.peers, p), append(c.events, events)
	}
	c.goOn(1)
	return c
}

// start starts a peer with a data directory; empty: one of its own.
func (c *crowd) start(dir string) (p *clitest.Program, events string) {
	c.t.Helper()
	home := c.t.TempDir()
	if dir == "" {
		dir = filepath.Join(home, "data")
	}
	events = filepath.Join(home, "events")
	args := []string{
		"join", "--run", c.name, "--preset", "lan", "--bootstrap", c.boot, "--data", c.data, "--data-dir", dir,
		"--events", events, "--start-peers", "3", "--rounds", "100000", "--inner-steps", "1",
	}
	return clitest.Start(c.t, home, slices.Concat(args, tiny, c.listen)...), events
}

// goOn waits until each of the three has applied so many slots more.
func (c *crowd) goOn(slots uint64) {
	c.t.Helper()
	for _, events := range c.events {
		applies(c.t, events, newest(c.t, events)+slots)
	}
}

func applies(t *testing.T, events string, slot uint64) {
	t.Helper()
	clitest.AwaitEvent(t, events, "slots", func(e eventlog.Line) bool {
		return e.Event == "slot.applied" && e.Slot >= slot
	})
}

// lines are the events in a file.
func lines(t *testing.T, path string) (all []eventlog.Line) {
	t.Helper()
	f := eventlog.Follow(path)
	defer f.Close()
	err := f.Next(func(b []byte) {
		e, err := eventlog.Parse(b)
		if err != nil {
			t.Error(err)
		}
		all = append(all, e)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// cloned are the events of a file that say that an identity is used twice.
func cloned(t *testing.T, path string) []eventlog.Line {
	t.Helper()
	return slices.DeleteFunc(lines(t, path), func(e eventlog.Line) bool { return e.Event != "peer.cloned" })
}

// TestRestartsOverQUIC: a peer is killed and started again at once, many times. Over QUIC the
// connections of its dead processes look alive for long; nobody takes them for others that live.
func TestRestartsOverQUIC(t *testing.T) {
	t.Parallel()
	c, dir := startCrowd(t, overQUIC), filepath.Join(t.TempDir(), "data")
	var events []string
	for i := range testlevel.Choose(2, 2, 12) {
		p, e := c.start(dir)
		events = append(events, e)
		clitest.AwaitEvent(t, e, "its start", clitest.Named("peer.started"))
		if i%2 == 0 {
			applies(t, e, 1)
		} else {
			c.goOn(2)
		}
		if err := p.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if code := p.Ends(t); code != -1 {
			t.Fatalf("process %d ended by itself: %d\n%s", i, code, &p.Err)
		}
	}
	last, e := c.start(dir)
	applies(t, e, 1)
	c.goOn(20)
	for _, e := range slices.Concat(events, c.events, []string{e}) {
		if said := cloned(t, e); len(said) > 0 {
			t.Errorf("a false alarm: %v", said)
		}
	}
	leave(t, append(c.peers, last)...)
}
