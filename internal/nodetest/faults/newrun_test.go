package faults

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/refound"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// Of the electors of a run of trust byzantine too few are left to go on without the others. They
// pause and say what to do. Each operator makes the same new run by itself, from the newest model:
// it begins where the old one was, and does the rounds that were left.
func TestTooFewElectorsFoundTheRunAnew(t *testing.T) {
	for _, c := range []struct {
		name         string
		start, n     uint64
		gone, liars  int
		startsWithin uint64 // members
	}{
		{"four of seven are gone", 7, 7, 4, 2, 2},
		{"three of five are gone", 5, 5, 3, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(40, c.start), int(c.n), func(s *nodetest.Swarm) {
				s.Pace(50 * time.Millisecond)
				s.Start(s.Peers...)
				s.Reach(2, s.Peers...)
				if got := s.Peers[0].Node.Load().Status().Agreement.Liars; got != c.liars {
					t.Errorf("%d liars are tolerated, not %d", got, c.liars)
				}
				gone, left := electorsFirst(s, c.gone)
				s.Isolate(gone...)
				s.Until(2*time.Minute, "told to found anew", func() bool {
					return strings.HasSuffix(left[0].Node.Load().Status().Reason, "p2pdiloco recover --new-run")
				})
				at := left[0].Applied()
				s.Kill(s.Peers...)
				made := foundAnew(t, s, at, left)
				for _, p := range s.Peers { // what they have applied was the old run's
					p.Note(p2pdiloco.Event{Name: "run.switched"})
				}
				if made.Rounds != 40-at || made.StartPeers != c.startsWithin {
					t.Errorf("after slot %d: %d rounds, start_peers %d", at, made.Rounds, made.StartPeers)
				}
				s.Spec = p2pdiloco.Spec{Name: s.Spec.Name}
				s.Restart(left...)
				s.Reach(3, left...)
				for _, p := range left {
					status := p.Node.Load().Status()
					if status.RunID != made.RunID() || len(status.Members) != len(left) || status.LastSlot != 40-at {
						t.Errorf("host %d: run %s with %d members, last slot %d", p.Host, status.RunID,
							len(status.Members),
							status.LastSlot)
					}
				}
				s.Equal()
				s.Kill(left[1:]...) // restarted, it goes on in the new run
				s.Restart(left[1:]...)
				s.Reach(left[0].Applied()+2, left...)
			})
		})
	}
}

// electorsFirst divides the peers: so many, with votes, that are to be gone, and the others.
func electorsFirst(s *nodetest.Swarm, n int) (gone, left []*nodetest.Peer) {
	for _, m := range s.Peers[0].Node.Load().Status().Members {
		if p := s.ByID(m.Peer); len(gone) < n && m.Seat > 0 {
			gone = append(gone, p)
		}
	}
	return gone, s.But(gone...)
}

// foundAnew does what the operators of the peers that are left do, and returns the spec.
func foundAnew(t *testing.T, s *nodetest.Swarm, at uint64, left []*nodetest.Peer) p2pdiloco.Spec {
	founders := idsOf(s, left)
	enough, err := refound.Found(t.Context(), refound.Config{
		Dir: left[0].Dir, Self: s.ID(left[0]), Slot: &at, Founders: idsOf(s, s.Peers),
	})
	if err == nil || !strings.Contains(err.Error(), "these peers are enough to go on") {
		t.Fatalf("with all of them: %+v, %v", enough.New, err)
	}
	later := at + 5
	_, err = refound.Found(t.Context(), refound.Config{
		Dir: left[0].Dir, Self: s.ID(left[0]), Slot: &later, Founders: founders,
	})
	if err == nil || !strings.Contains(err.Error(), "give the newest slot that all of the peers hold") {
		t.Errorf("a slot that is not there: %v", err)
	}
	var first p2pdiloco.Spec
	for i, p := range left {
		made, err := refound.Found(t.Context(), refound.Config{
			Dir: p.Dir, Self: s.ID(p), Slot: &at, Founders: founders,
		})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = made.New
		}
		interrupted(s, p, made, i == 0)
		made, err = refound.Found(t.Context(), refound.Config{
			Dir: p.Dir, Self: s.ID(p), Slot: &at, Founders: founders,
		})
		if err != nil {
			t.Fatalf("once more, after it was interrupted: %v", err)
		}
		if made.New.RunID() != first.RunID() || made.Slot != at {
			t.Errorf("host %d makes run %s from slot %d, not %s", p.Host, made.New.RunID(), made.Slot, first.RunID())
		}
		_, err = refound.Found(t.Context(), refound.Config{Dir: p.Dir, Self: s.ID(p), Founders: founders})
		if err == nil || !strings.Contains(err.Error(), "is one of the new run already") {
			t.Errorf("a second time: %v", err)
		}
	}
	return first
}

// interrupted makes a data directory what it is where the process dies in Found: right before it
// replaces the spec, or early, with the state moved and nothing else. A peer that is started then
// would found the old run again. It is refused until Found has ended, or has refused something else
// and undone what it had moved.
func interrupted(s *nodetest.Swarm, p *nodetest.Peer, made refound.Result, early bool) {
	s.T.Helper()
	text, err := os.ReadFile(filepath.Join(made.Kept, "run.spec"))
	if err == nil {
		err = os.WriteFile(filepath.Join(p.Dir, "run.spec"), text, 0o600)
	}
	if early && err == nil {
		err = errors.Join(os.Remove(filepath.Join(made.Kept, "run.spec")),
			os.Rename(filepath.Join(made.Kept, "ledger.log"), filepath.Join(p.Dir, "ledger.log")))
	}
	if err != nil {
		s.T.Fatal(err)
	}
	s.Restart(p)
	if err := s.Outcome(p, time.After(time.Minute)); err == nil || !strings.Contains(err.Error(), "was interrupted") {
		s.T.Errorf("host %d starts from half a data directory: %v", p.Host, err)
	}
	if !early {
		return
	}
	_, err = refound.Found(s.T.Context(), refound.Config{Dir: p.Dir, Self: s.ID(p), Founders: idsOf(s, s.Peers)})
	if err == nil || !strings.Contains(err.Error(), "these peers are enough to go on") {
		s.T.Errorf("with all of them: %v", err)
	}
	if _, err := os.Stat(made.Kept); !os.IsNotExist(err) {
		s.T.Errorf("it was undone, and counts as interrupted: %v", err)
	}
}

func idsOf(s *nodetest.Swarm, peers []*nodetest.Peer) (all []p2pdiloco.PeerID) {
	for _, p := range peers {
		all = append(all, s.ID(p))
	}
	return all
}
