package nodetest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
)

// harm does something to a file, or folder, of a peer's data directory.
type harm func(t *testing.T, p *Peer, name string)

// tear cuts the end of a file off: 7 bytes.
func tear(t *testing.T, p *Peer, name string) {
	shorten(t, p, name, func(n int64) int64 { return n - 7 })
}

func shorten(t *testing.T, p *Peer, name string, to func(size int64) int64) {
	t.Helper()
	path := filepath.Join(p.Dir, name)
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, to(info.Size()))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// harmed runs three peers for so many slots, the second of which is harmed between its process's
// end after slot 3 and its next start.
func harmed(t *testing.T, do func(s *Swarm, p *Peer), then func(s *Swarm, p *Peer)) {
	Once(t, 8, 3, func(s *Swarm) {
		s.Pace(30 * time.Millisecond)
		p := s.Peers[1]
		s.Start(s.Peers...)
		s.Reach(3, s.Peers...)
		s.Stop(p)
		do(s, p)
		s.Start(p)
		then(s, p)
	})
}

// What a peer can do without, it fetches anew, and takes part again. Of damaged checkpoints see
// TestCorruptCheckpointsAreNamedAndTheOneBeforeIsUsed.
func TestAPeerRecoversFromItsDisk(t *testing.T) {
	for name, c := range map[string]struct {
		do   harm
		file string
	}{
		"no checkpoints": {Remove, "state"},
		"no ledger":      {Remove, "ledger.log"},
		"no run spec":    {Remove, "run.spec"},
		"nothing":        {Remove, ""},
		"a torn ledger":  {tear, "ledger.log"},
	} {
		t.Run(name, func(t *testing.T) {
			harmed(t, func(_ *Swarm, p *Peer) { c.do(t, p, c.file) }, func(s *Swarm, p *Peer) {
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
		do   func(s *Swarm, p *Peer)
		want error
		text string // in the error, or the field of a spec
	}{
		"damaged ledger": {
			func(_ *Swarm, p *Peer) { Damage(t, p, "ledger.log") }, store.ErrCorrupt, "",
		},
		"ledger cut short": {func(_ *Swarm, p *Peer) {
			shorten(t, p, "ledger.log", func(n int64) int64 { return n / 3 })
		}, store.ErrCorrupt, ""},
		"damaged run spec": {
			func(_ *Swarm, p *Peer) { Damage(t, p, "run.spec") }, nil, "move the directory away",
		},
		"directory of another run": {func(s *Swarm, _ *Peer) { s.Spec.Name = "another" }, nil, "name"},
		"directory of a run with another spec": {
			func(s *Swarm, _ *Peer) { s.Spec.Rounds = 99 }, nil, "rounds",
		},
		"directory in use": {func(s *Swarm, p *Peer) { p.Dir = s.Peers[0].Dir }, disk.ErrLocked, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var spec p2pdiloco.Spec
			harmed(t, func(s *Swarm, p *Peer) { spec = s.Spec; c.do(s, p) }, func(s *Swarm, p *Peer) {
				err := s.Outcome(p, time.After(time.Minute))
				var differs *p2pdiloco.SpecError
				switch {
				case err == nil || c.want != nil && !errors.Is(err, c.want):
					t.Errorf("Join: %v", err)
				case errors.As(err, &differs) && !strings.Contains(err.Error(), "is damaged"):
					if differs.Field != c.text || !strings.Contains(err.Error(), "data directory") {
						t.Errorf("Join: %v", err)
					}
				case !strings.Contains(err.Error(), c.text):
					t.Errorf("Join: %v", err)
				}
				s.Spec = spec
				s.Finish(time.Minute, s.But(p)...)
			})
		})
	}
}
