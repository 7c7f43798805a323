package nodetest

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// An old copy of a data directory is put back: the node ends with an error that says so, and the
// others go on.
func TestAnOldDataDirectoryPutBack(t *testing.T) {
	Once(t, 12, 3, func(s *Swarm) {
		s.Pace(20 * time.Millisecond)
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		p := s.But(s.Founder())[0]
		s.Stop(p)
		copied := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(copied, os.DirFS(p.Dir)); err != nil {
			t.Fatal(err)
		}
		at := p.Applied()
		s.Start(p)
		s.Until(time.Minute, "contributing again", func() bool { return s.ContributedAfter(p, at+1) })
		s.Stop(p)
		if err := errors.Join(os.RemoveAll(p.Dir), os.CopyFS(p.Dir, os.DirFS(copied))); err != nil {
			t.Fatal(err)
		}
		s.Start(p)
		if err := s.Outcome(p, time.After(time.Minute)); !errors.Is(err, p2pdiloco.ErrCloned) || !p.Had("peer.cloned") {
			t.Errorf("it ended with %v", err)
		}
		s.Finish(3*time.Minute, s.But(p)...)
	})
}

// A member and a process with a copy of its data directory run at once, each connected to others,
// whichever of them is there first. At the first record that has what the first one said since, and
// the second one did not, the second one ends with an error that says so. The others go on, and so
// does the first.
func TestTwoProcessesWithOneDataDirectory(t *testing.T) {
	for name, copyFirst := range map[string]bool{"the copy comes second": false, "the copy comes first": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			RunOver(t, sim.New, Spec(12, 4), 3, func(s *Swarm) {
				key, _, err := crypto.GenerateEd25519Key(rand.Reader)
				if err != nil {
					t.Fatal(err)
				}
				honest := slices.Clone(s.Peers)
				s.Net.Options = []libp2p.Option{libp2p.Identity(key)}
				first, second := s.Add(), s.Add()
				s.Pace(20 * time.Millisecond)
				s.Cut(true, []*Peer{first}, honest[2:])
				s.Cut(true, []*Peer{second}, honest[:2])
				s.Start(append(honest, first)...)
				s.Reach(2, append(honest, first)...)
				s.Stop(first)
				if err := os.CopyFS(second.Dir, os.DirFS(first.Dir)); err != nil {
					t.Fatal(err)
				}
				at := first.Applied()
				if copyFirst {
					first, second = second, first
				}
				s.Start(first)
				s.Until(time.Minute, "contributing again", func() bool { return s.ContributedAfter(first, at+1) })
				s.Start(second)
				s.Until(time.Minute, "an end", func() bool { return len(second.Done) > 0 })
				if err := s.Outcome(second, nil); !errors.Is(err, p2pdiloco.ErrCloned) || !second.Had("peer.cloned") ||
					!strings.Contains(err.Error(), "stop the other process") {
					t.Errorf("the second one ends with %v", err)
				}
				living := append(honest, first)
				s.Finish(5*time.Minute, living...)
				for _, p := range living {
					if p.Had("peer.cloned") {
						t.Errorf("host %d says %v", p.Host, p.Events("peer.cloned"))
					}
				}
			})
		})
	}
}
