package p2pdiloco

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/membership"
)

// damage flips a byte in the middle of every file under a path of a peer's data directory.
func damage(t *testing.T, p *simPeer, name string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(p.dir, name), func(path string, e fs.DirEntry, err error) error {
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

func remove(t *testing.T, p *simPeer, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(p.dir, name)); err != nil {
		t.Fatal(err)
	}
}

// What a peer can do without, it fetches anew, and takes part again.
func TestAPeerRecoversFromItsDisk(t *testing.T) {
	for name, harm := range map[string]func(*testing.T, *simPeer){
		"no checkpoints":      func(t *testing.T, p *simPeer) { remove(t, p, "state") },
		"damaged checkpoints": func(t *testing.T, p *simPeer) { damage(t, p, "state") },
		"no ledger":           func(t *testing.T, p *simPeer) { remove(t, p, "ledger.log") },
		"no run spec":         func(t *testing.T, p *simPeer) { remove(t, p, specFile) },
		"nothing":             func(t *testing.T, p *simPeer) { remove(t, p, "") },
		"a torn ledger": func(t *testing.T, p *simPeer) {
			path := filepath.Join(p.dir, "ledger.log")
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
			inSim(t, 10*time.Millisecond, simSpec(8, 3), 3, func(s *swarm) {
				s.pace(30 * time.Millisecond)
				p := s.peers[1]
				s.start(s.peers...)
				s.reach(3, s.peers...)
				s.stop(p)
				harm(t, p)
				s.start(p)
				s.finish(2*time.Minute, s.peers...)
				if !s.contributedAfter(p, 4) {
					t.Errorf("it contributed to slots %v and never again", s.contributions(p))
				}
			})
		})
	}
}

// All die, and one has lost its checkpoints: nothing that was agreed is lost, and it gets them from the others.
func TestAllDieAndOneLosesItsCheckpoints(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(8, 3), 3, func(s *swarm) {
		s.start(s.peers...)
		s.reach(3, s.peers...)
		for _, p := range s.peers {
			s.stop(p)
		}
		remove(t, s.peers[0], "state")
		damage(t, s.peers[1], "state")
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
	})
}

// What must not be guessed is refused, with what to do about it.
func TestADataDirectoryThatMustNotBeUsedIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(s *swarm, p *simPeer)
		want func(error) bool
	}{
		"damaged ledger": {
			func(s *swarm, p *simPeer) { damage(s.t, p, "ledger.log") },
			func(err error) bool { return errors.Is(err, membership.ErrStoreCorrupt) },
		},
		"damaged run spec": {
			func(s *swarm, p *simPeer) { damage(s.t, p, specFile) },
			func(err error) bool {
				return strings.Contains(err.Error(), "run.spec") && strings.Contains(err.Error(), "move the directory away")
			},
		},
		"directory of another run": {
			func(s *swarm, p *simPeer) { s.spec.Name = "another" },
			func(err error) bool {
				var differs *SpecError
				return errors.As(err, &differs) && differs.Field == "name" && strings.Contains(err.Error(), p2pDirHint)
			},
		},
		"directory of a run with another spec": {
			func(s *swarm, p *simPeer) { s.spec.Rounds = 99 },
			func(err error) bool {
				var differs *SpecError
				return errors.As(err, &differs) && differs.Field == "rounds" && differs.There == "8"
			},
		},
		"directory in use": {
			func(s *swarm, p *simPeer) { p.dir = s.peers[0].dir },
			func(err error) bool { return errors.Is(err, disk.ErrLocked) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(8, 3), 3, func(s *swarm) {
				spec := s.spec
				p := s.peers[1]
				s.start(s.peers...)
				s.reach(2, s.peers...)
				s.stop(p)
				c.harm(s, p)
				s.start(p)
				if err := s.outcome(p, time.After(time.Minute)); err == nil || !c.want(err) {
					t.Errorf("Join: %v", err)
				}
				s.spec = spec
				s.finish(time.Minute, s.but(p)...)
			})
		})
	}
}

// p2pDirHint is in every error about a data directory of another run: which directory it is.
const p2pDirHint = "data directory"
