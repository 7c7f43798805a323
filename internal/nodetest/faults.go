package nodetest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// Founder returns the peer that the chain began with: the senior of the members while it is one.
func (s *Swarm) Founder() *Peer {
	s.T.Helper()
	i := slices.IndexFunc(s.Peers, func(p *Peer) bool { return p.Had("run.founded") })
	if i < 0 {
		s.T.Fatalf("nobody has founded the run\n%s", s)
	}
	return s.Peers[i]
}

// WhenLeader calls f once, when the leader of a slot's first ballot has an event of that slot. The
// pointer then holds the leader.
func (s *Swarm) WhenLeader(slotNumber uint64, event string, f func(*Peer)) *atomic.Pointer[Peer] {
	leader, victim := &atomic.Pointer[Peer]{}, &atomic.Pointer[Peer]{}
	for _, p := range s.Peers {
		p.OnEvent = func(e p2pdiloco.Event) {
			if e.Fields["slot"] != slotNumber {
				return
			}
			if l := p.Ledger(); e.Name == "slot.planned" && l != nil && l.View().Leader == e.Peer {
				leader.CompareAndSwap(nil, p)
			}
			if e.Name == event && leader.Load() == p && victim.CompareAndSwap(nil, p) {
				f(p)
			}
		}
	}
	return victim
}

// KillAndFinish kills a peer that was cut off, once it was, and sees the others through.
func (s *Swarm) KillAndFinish(victim *atomic.Pointer[Peer]) {
	s.T.Helper()
	s.Until(time.Minute, "found a leader to kill", func() bool { return victim.Load() != nil })
	time.Sleep(300 * time.Millisecond) // later than any step of the tests
	s.Kill(victim.Load())
	s.Finish(2*time.Minute, s.But(victim.Load())...)
}

// Damage flips a byte in the middle of every file under a path of a peer's data directory.
func Damage(t *testing.T, p *Peer, name string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(p.Dir, name), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && len(b) > 0 {
			b[len(b)/2] ^= 0x10
			files++
			err = os.WriteFile(path, b, 0o600)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("damaging %s: %v, %d files", name, err, files)
	}
}

// Remove deletes a file of a peer's data directory.
func Remove(t *testing.T, p *Peer, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(p.Dir, name)); err != nil {
		t.Fatal(err)
	}
}

// Stay drives a peer that goes on serving after the run's end.
func Stay(ctx context.Context, n *p2pdiloco.Node) error {
	if err := n.Run(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// LeaveWhen makes a peer's process leave when told, as the command line does: the context of what
// it does, which is Run if it has no Main, ends, then Leave. Otherwise it ends with that.
func LeaveWhen(told <-chan struct{}, p *Peer) {
	run := p.Main
	if run == nil {
		run = func(ctx context.Context, n *p2pdiloco.Node) error { return n.Run(ctx) }
	}
	p.Main = func(ctx context.Context, n *p2pdiloco.Node) error {
		running, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			select {
			case <-told:
				stop()
			case <-running.Done():
			}
		}()
		err := run(running, n)
		if running.Err() == nil || ctx.Err() != nil || err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return n.Leave(ctx)
	}
}
