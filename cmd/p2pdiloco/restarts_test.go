//go:build unix

package main

import (
	"path/filepath"
	"slices"
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
	c := &crowd{t: t, name: swarm.RunName("restarts"), data: smallData(t), boot: bootNode(t, listen...), listen: listen}
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

// restart kills a peer and starts it again at once, some times. Over QUIC the connections of its
// dead processes look alive for long; nobody takes them for others that live.
func (c *crowd) restart() {
	c.t.Helper()
	dir := filepath.Join(c.t.TempDir(), "data")
	files := slices.Clone(c.events)
	var p *clitest.Program
	for i := range testlevel.Choose(2, 3, 12) {
		if p != nil {
			if err := p.Process.Signal(syscall.SIGKILL); err != nil {
				c.t.Fatal(err)
			}
			if code := p.Ends(c.t); code != -1 {
				c.t.Fatalf("process %d ended by itself: %d\n%s", i, code, &p.Err)
			}
		}
		var events string
		p, events = c.start(dir)
		files = append(files, events)
		clitest.AwaitEvent(c.t, events, "its start", clitest.Named("peer.started"))
		if i%2 == 0 {
			applies(c.t, events, 1)
		} else {
			c.goOn(2)
		}
	}
	applies(c.t, files[len(files)-1], 1)
	c.goOn(10)
	for _, file := range files {
		if slices.ContainsFunc(lines(c.t, file), clitest.Named("peer.cloned")) {
			c.t.Errorf("a false alarm in %s", file)
		}
	}
	leave(c.t, p)
}
