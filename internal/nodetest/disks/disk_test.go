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
	for name, harm := range map[string]func(*testing.T, *peer){
		"no checkpoints":      func(t *testing.T, p *peer) { nodetest.Remove(t, p, "state") },
		"damaged checkpoints": func(t *testing.T, p *peer) { nodetest.Damage(t, p, "state") },
		"no ledger":           func(t *testing.T, p *peer) { nodetest.Remove(t, p, "ledger.log") },
		"no run spec":         func(t *testing.T, p *peer) { nodetest.Remove(t, p, "run.spec") },
		"nothing":             func(t *testing.T, p *peer) { nodetest.Remove(t, p, "") },
		"a torn ledger": func(t *testing.T, p *peer) {
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
			nodetest.Once(t, 8, 3, func(s *swarm) {
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

// What must not be guessed is refused, with what to do about it.
func TestADataDirectoryThatMustNotBeUsedIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(s *swarm, p *peer)
		want func(error) bool
	}{
		"damaged ledger": {
			func(s *swarm, p *peer) { nodetest.Damage(s.T, p, "ledger.log") },
			func(err error) bool { return errors.Is(err, store.ErrCorrupt) },
		},
		"ledger cut short": {
			func(s *swarm, p *peer) {
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
			func(s *swarm, p *peer) { nodetest.Damage(s.T, p, "run.spec") },
			func(err error) bool {
				return strings.Contains(err.Error(), "run.spec") &&
					strings.Contains(err.Error(), "move the directory away")
			},
		},
		"directory of another run": {
			func(s *swarm, p *peer) { s.Spec.Name = "another" },
			func(err error) bool {
				var differs *p2pdiloco.SpecError
				return errors.As(err, &differs) && differs.Field == "name" && strings.Contains(err.Error(), p2pDirHint)
			},
		},
		"directory of a run with another spec": {
			func(s *swarm, p *peer) { s.Spec.Rounds = 99 },
			func(err error) bool {
				var differs *p2pdiloco.SpecError
				return errors.As(err, &differs) && differs.Field == "rounds" && differs.There == "8"
			},
		},
		"directory in use": {
			func(s *swarm, p *peer) { p.Dir = s.Peers[0].Dir },
			func(err error) bool { return errors.Is(err, disk.ErrLocked) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Once(t, 8, 3, func(s *swarm) {
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
