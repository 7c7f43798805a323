package nodetest

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// stateFiles are the names in a peer's store that begin with a word, newest first.
func stateFiles(t *testing.T, p *Peer, kind string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(p.Dir, "state", kind+"-*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names) // by height
	slices.Reverse(names)
	for i, n := range names {
		names[i] = filepath.Base(n)
	}
	return names
}

// A stopped peer finds some of its files torn or corrupt when it comes back: each is named, and
// what came before it, or others, helps.
func TestCorruptCheckpointsAreNamedAndTheOneBeforeIsUsed(t *testing.T) {
	for name, c := range map[string]struct {
		kind     string
		from, to int // of the files, newest first; to the last one if to is 0
		do       harm
	}{
		"the newest checkpoint torn":    {"state", 0, 1, tear},
		"every checkpoint corrupt":      {"state", 0, 0, Damage},
		"the newest outcome corrupt":    {"outcome", 0, 1, Damage},
		"the outcome before it corrupt": {"outcome", 1, 2, Damage},
	} {
		t.Run(name, func(t *testing.T) {
			Once(t, 16, 3, func(s *Swarm) {
				s.Pace(30 * time.Millisecond)
				p, log := s.Peers[1], &Lines{}
				p.Config = func(cfg *p2pdiloco.Config) {
					cfg.CheckpointEvery, cfg.Logger = 3, slog.New(slog.NewTextHandler(log, nil))
				}
				s.Start(s.Peers...)
				s.Reach(8, s.Peers...) // checkpoints of slots 3 and 6
				s.Stop(p)
				files := stateFiles(t, p, c.kind)
				files = files[c.from:cmp.Or(c.to, len(files))]
				for _, file := range files {
					c.do(t, p, filepath.Join("state", file))
				}
				before, synced := len(p.Events("slot.applied")), len(p.Events("state.synced"))
				s.Start(p)
				s.Finish(2*time.Minute, s.Peers...)
				for _, file := range files {
					if !log.Has("torn or corrupt", file, "why") {
						t.Errorf("the log does not name %s:\n%s", file, log)
					}
				}
				if got, want := len(p.Events("state.synced")) > synced, c.to == 0; got != want {
					t.Errorf("fetched a state: %v, want %v", got, want)
				}
				if replayed := p.Events("slot.applied")[before].Fields["slot"].(uint64); c.to > 0 &&
					(replayed < 4 || replayed > 7) {
					t.Errorf("went on with slot %d, not from a checkpoint of its own", replayed)
				}
			})
		})
	}
}

// Close keeps the state held, whichever slot it is, and the store holds as many checkpoints as
// wanted, and the outcomes since.
func TestCheckpointsAreKeptAsConfigured(t *testing.T) {
	Once(t, 11, 1, func(s *Swarm) {
		p := s.Peers[0]
		p.Graceful = true
		p.Config = func(cfg *p2pdiloco.Config) { cfg.CheckpointEvery, cfg.KeepCheckpoints = 2, 3 }
		p.Main = func(ctx context.Context, n *p2pdiloco.Node) error {
			if err := n.Run(ctx); err != nil {
				return err
			}
			return n.Close()
		}
		s.Start(p)
		s.Finish(time.Minute, p)
		states, outcomes := stateFiles(t, p, "state"), stateFiles(t, p, "outcome")
		// slots 7, 9 and 11 by outcome; checkpoints after 8, 10 and 11
		if len(states) != 3 || len(outcomes) != 3 {
			t.Errorf("%d states and %d outcomes kept: %v %v", len(states), len(outcomes), states, outcomes)
		}
		if !strings.HasSuffix(states[0], p.States()[11].String()) {
			t.Errorf("newest checkpoint is %s, not the state %s", states[0], p.States()[11])
		}
	})
}
