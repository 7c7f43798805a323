package hostile

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	lab "github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// An auditor accuses everybody with proofs that prove nothing, asks everybody for everything,
// passes everything, and says nothing, in turns. The run goes on, and nobody is evicted or left
// out; that it accuses falsely is said of it.
func TestAnAuditorThatAccusesFalsely(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "begin"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// four, so that all have a seat: of five one has none, and does not audit
	nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(11, 4), 4, func(s *nodetest.Swarm) {
		ctx, cancel := context.WithCancel(s.T.Context())
		defer cancel()
		bad := s.Peers[2]
		bad.Hooks = func(h *testhooks.Hooks) {
			if err := lab.Turn(ctx, h, "bad-auditor", folder); err != nil {
				t.Error(err)
			}
		}
		s.Start(s.Peers...)
		s.Finish(5*time.Minute, s.But(bad)...)
		checkHonest(t, s, bad)
		checkEvicted(t, s, bad, 0)
		did, _ := os.ReadFile(filepath.Join(folder, "deeds-"+s.ID(bad).String()))
		for _, slot := range []string{"slot 5: it asks for ", "slot 9: it asks for "} {
			for _, what := range []string{"all of a contribution", "what others are to pass on"} {
				if !strings.Contains(string(did), slot+what) {
					t.Errorf("it has not done this: %s%s", slot, what)
				}
			}
		}
		if !strings.Contains(string(did), "it says nothing of the outcome") {
			t.Error("it has said HAVE of each outcome")
		}
		for _, p := range s.But(bad) {
			said := slices.ContainsFunc(p.Events("peer.refused"), func(e p2pdiloco.Event) bool {
				return e.Fields["about"] == s.ID(bad) && e.Fields["reason"] == "false_proof"
			})
			if !said {
				t.Errorf("host %d does not say that it is accused falsely", p.Host)
			}
		}
	})
}
