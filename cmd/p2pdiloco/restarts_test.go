//go:build unix

package main

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// crowd is a run of some peers, with a bootstrap node, to which others come.
type crowd struct {
	t      *testing.T
	common []string // flags of all
	peers  []*clitest.Program
	dirs   []string // of the peers
	events []string
}

// startCrowd starts peers of a run, which end never.
func startCrowd(t *testing.T, peers int, listen []string, more ...string) *crowd {
	t.Helper()
	c := &crowd{t: t, common: slices.Concat([]string{
		"--run", lab.RunName("crowd"), "--bootstrap", bootNode(t, listen...), "--rounds", "100000", "--inner-steps",
		"1",
	}, listen, library(t), more)}
	for range peers {
		dir := filepath.Join(t.TempDir(), "data")
		p, events := c.start(dir)
		c.peers, c.dirs, c.events = append(c.peers, p), append(c.dirs, dir), append(c.events, events)
	}
	c.goOn(1)
	return c
}

// start starts a peer with a data directory.
func (c *crowd) start(dir string) (p *clitest.Program, events string) {
	c.t.Helper()
	return startBare(c.t, c.t.TempDir(), append([]string{"--data-dir", dir}, c.common...)...)
}

// goOn waits until each of the peers has applied so many slots more.
func (c *crowd) goOn(slots uint64) {
	c.t.Helper()
	for _, events := range c.events {
		applies(c.t, events, newest(c.t, events)+slots)
	}
}

// newest is the newest slot that a peer has applied.
func newest(t *testing.T, events string) (slot uint64) {
	t.Helper()
	for _, e := range lines(t, events) {
		slot = max(slot, e.Slot)
	}
	return slot
}

// restart kills a peer and starts it again at once, some times. Over QUIC the connections of its
// dead processes look alive for long; nobody takes them for others that live.
func (c *crowd) restart() {
	c.t.Helper()
	dir, files := filepath.Join(c.t.TempDir(), "data"), slices.Clone(c.events)
	var p *clitest.Program
	for i := range testutil.Choose(2, 3, 12) {
		if p != nil {
			p.Signal(c.t, syscall.SIGKILL)
			p.Exits(c.t, -1)
		}
		var events string
		p, events = c.start(dir)
		files = append(files, events)
		clitest.Await(c.t, events, "peer.started")
		if i%2 == 0 {
			applies(c.t, events, 1)
		} else {
			c.goOn(2)
		}
	}
	applies(c.t, files[len(files)-1], 1)
	c.goOn(5)
	for _, file := range files {
		if slices.ContainsFunc(lines(c.t, file), clitest.Named("peer.cloned")) {
			c.t.Errorf("a false alarm in %s", file)
		}
	}
	leave(c.t, p)
}
