package nodetest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

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
