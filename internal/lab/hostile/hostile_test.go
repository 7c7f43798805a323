package hostile

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/chaos"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEveryAttackHasAPeer: what chaos asks for is here, and nothing else.
func TestEveryAttackHasAPeer(t *testing.T) {
	var names []string
	for _, a := range chaos.Attacks() {
		names = append(names, string(a))
	}
	slices.Sort(names)
	if !slices.Equal(names, Kinds()) {
		t.Errorf("chaos runs %v, this package has %v", names, Kinds())
	}
	if _, err := With(t.Context(), "polite", t.TempDir()); err == nil {
		t.Error("a kind that nobody knows was accepted")
	}
}

// TestEachKindAttacks: before it is told to, a hostile peer takes part like the others; after that
// it does what its kind does.
func TestEachKindAttacks(t *testing.T) {
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			// it comes to a run under way
			late := kind == "silent-newcomer" || kind == "sybil" || strings.HasPrefix(kind, "strangers-")
			peers := 4 // all with a vote
			if late {
				peers++
			}
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(0, 4), peers, func(s *nodetest.Swarm) {
				ctx, cancel := context.WithCancel(s.T.Context())
				defer cancel()
				folder := t.TempDir()
				liar := s.Peers[peers-1]
				liars := s.Peers[peers-1:]
				if kind == "copy" { // of one another
					liars = s.Peers[peers-2:]
				}
				for _, p := range liars {
					p.Hooks = func(h *testhooks.Hooks) {
						if err := Turn(ctx, h, kind, folder); err != nil {
							t.Error(err)
						}
					}
				}
				if kind == "early-close" {
					liar.Trainer.(*nodetest.Bowl).Pace = time.Millisecond
				}
				begin := func() {
					if err := os.WriteFile(filepath.Join(folder, beginFile), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if late {
					begin()
					s.Start(s.But(liar)...)
					s.Reach(2, s.But(liar)...)
					s.Start(liar)
				} else {
					s.Start(s.Peers...)
					s.Reach(4, s.Peers...)
					if len(deeds(folder)) > 0 {
						t.Error("it attacked before it was told to")
					}
					begin()
				}
				s.Until(5*time.Minute, kind, func() bool { return len(deeds(folder)) > 0 })
				t.Log(deeds(folder))
			})
		})
	}
}

func deeds(folder string) string {
	files, _ := filepath.Glob(filepath.Join(folder, deedFiles+"-*"))
	var all strings.Builder
	for _, f := range files {
		b, _ := os.ReadFile(f)
		all.Write(b)
	}
	return all.String()
}
