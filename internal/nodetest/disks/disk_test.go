package disks

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
)

// What a peer can do without, it fetches anew, and takes part again.
func TestAPeerRecoversFromItsDisk(t *testing.T) {
	for name, harm := range map[string]func(*testing.T, *nodetest.Peer){
		"no checkpoints":      func(t *testing.T, p *nodetest.Peer) { nodetest.Remove(t, p, "state") },
		"damaged checkpoints": func(t *testing.T, p *nodetest.Peer) { nodetest.Damage(t, p, "state") },
		"no ledger":           func(t *testing.T, p *nodetest.Peer) { nodetest.Remove(t, p, "ledger.log") },
		"no run spec":         func(t *testing.T, p *nodetest.Peer) { nodetest.Remove(t, p, "run.spec") },
		"nothing":             func(t *testing.T, p *nodetest.Peer) { nodetest.Remove(t, p, "") },
		"a torn ledger": func(t *testing.T, p *nodetest.Peer) {
			path := filepath.Join(p.Dir, "ledger.log")
			info, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, info.Size()-5)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(8, 3), 3, func(s *nodetest.Swarm) {
				s.Pace(30 * time.Millisecond)
				p := s.Peers[1]
				s.Start(s.Peers...)
				s.Reach(3, s.Peers...)
				s.Stop(p)
				harm(t, p)
				s.Start(p)
				s.Finish(2*time.Minute, s.Peers...)
				if !s.ContributedAfter(p, 4) {
					t.Errorf("it contributed to slots %v and never again", s.Contributions(p))
				}
			})
		})
	}
}

// All die, and one has lost its checkpoints: nothing that was agreed is lost, and it gets them from
// the others.
func TestAllDieAndOneLosesItsCheckpoints(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(8, 3), 3, func(s *nodetest.Swarm) {
		s.Start(s.Peers...)
		s.Reach(3, s.Peers...)
		for _, p := range s.Peers {
			s.Stop(p)
		}
		nodetest.Remove(t, s.Peers[0], "state")
		nodetest.Damage(t, s.Peers[1], "state")
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
	})
}

// What must not be guessed is refused, with what to do about it.
func TestADataDirectoryThatMustNotBeUsedIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(s *nodetest.Swarm, p *nodetest.Peer)
		want func(error) bool
	}{
		"damaged ledger": {
			func(s *nodetest.Swarm, p *nodetest.Peer) { nodetest.Damage(s.T, p, "ledger.log") },
			func(err error) bool { return errors.Is(err, store.ErrCorrupt) },
		},
		"ledger cut short": {
			func(s *nodetest.Swarm, p *nodetest.Peer) {
				path := filepath.Join(p.Dir, "ledger.log")
				info, err := os.Stat(path)
				if err == nil {
					err = os.Truncate(path, info.Size()/3)
				}
				if err != nil {
					s.T.Fatal(err)
				}
			},
			func(err error) bool { return errors.Is(err, store.ErrCorrupt) },
		},
		"damaged run spec": {
			func(s *nodetest.Swarm, p *nodetest.Peer) { nodetest.Damage(s.T, p, "run.spec") },
			func(err error) bool {
				return strings.Contains(err.Error(), "run.spec") &&
					strings.Contains(err.Error(), "move the directory away")
			},
		},
		"directory of another run": {
			func(s *nodetest.Swarm, p *nodetest.Peer) { s.Spec.Name = "another" },
			func(err error) bool {
				var differs *p2pdiloco.SpecError
				return errors.As(err, &differs) && differs.Field == "name" && strings.Contains(err.Error(), p2pDirHint)
			},
		},
		"directory of a run with another spec": {
			func(s *nodetest.Swarm, p *nodetest.Peer) { s.Spec.Rounds = 99 },
			func(err error) bool {
				var differs *p2pdiloco.SpecError
				return errors.As(err, &differs) && differs.Field == "rounds" && differs.There == "8"
			},
		},
		"directory in use": {
			func(s *nodetest.Swarm, p *nodetest.Peer) { p.Dir = s.Peers[0].Dir },
			func(err error) bool { return errors.Is(err, disk.ErrLocked) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(8, 3), 3, func(s *nodetest.Swarm) {
				spec := s.Spec
				p := s.Peers[1]
				s.Start(s.Peers...)
				s.Reach(2, s.Peers...)
				s.Stop(p)
				c.harm(s, p)
				s.Start(p)
				if err := s.Outcome(p, time.After(time.Minute)); err == nil || !c.want(err) {
					t.Errorf("Join: %v", err)
				}
				s.Spec = spec
				s.Finish(time.Minute, s.But(p)...)
			})
		})
	}
}

// p2pDirHint is in every error about a data directory of another run: which directory it is.
const p2pDirHint = "data directory"
