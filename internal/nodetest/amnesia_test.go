package nodetest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
)

// All die, and the first to come back has lost its ledger: it must not found the run anew, but wait
// for the peers that remember. So it must when it is started once more before these are back: then
// it has the ledger that its first start made, and it founded the run from slot 0.
func TestAPeerThatLostItsLedgerFoundsNothing(t *testing.T) {
	Once(t, 8, 3, func(s *Swarm) {
		s.Start(s.Peers...)
		s.Reach(3, s.Peers...)
		for _, p := range s.Peers {
			s.Stop(p)
		}
		forgetful := s.Founder()
		Remove(t, forgetful, "ledger.log")
		founded := len(forgetful.Events("run.founded"))
		for start := range 2 {
			s.Start(forgetful)
			time.Sleep(time.Minute)
			if n := len(forgetful.Events("run.founded")); n > founded {
				t.Fatalf("start %d: it founded the run %d times more", start, n-founded)
			}
			s.Stop(forgetful)
		}
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...) // also checks that every slot has one root
		note := filepath.Join(forgetful.Dir, datadir.LostFile)
		if _, err := os.Stat(note); err != nil {
			t.Error(err)
		}
		s.Start(forgetful)
		if err := s.Outcome(forgetful, time.After(time.Minute)); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(note); !os.IsNotExist(err) {
			t.Errorf("it has a chain, and the note of its loss is there still: %v", err)
		}
	})
}

// A peer without a trainer and a model must not found the run of a spec that it adopted: it would
// begin with zeros. The peer that has a model does not wait for it either, although the other has
// the lower ID.
func TestAPeerWithoutAModelFoundsNothing(t *testing.T) {
	spec := Spec(4, 2)
	spec.Trust = p2pdiloco.TrustCrash // any peer may found it
	Run(t, spec, 2, func(s *Swarm) {
		trains, votes := s.Peers[0], s.Peers[1]
		if s.ID(trains) < s.ID(votes) {
			trains, votes = votes, trains
		}
		votes.Trainer = nil
		votes.Config = func(c *p2pdiloco.Config) { c.Spec = p2pdiloco.Spec{Name: s.Spec.Name} }
		began := time.Now()
		s.Start(s.Peers...)
		s.Until(time.Minute, "founded", func() bool { return trains.Had("run.founded") || votes.Had("run.founded") })
		if votes.Had("run.founded") {
			t.Fatal("the run begins with zeros")
		}
		if waited := time.Since(began); waited > 6*time.Second { // discovery 2 s, a window 1.5 s
			t.Errorf("the run was founded after %v", waited)
		}
		if said := votes.Events("run.searching"); len(said) == 0 || said[len(said)-1].Fields["detail"] == "" {
			t.Errorf("it says %v", said)
		}
		s.Finish(time.Minute, s.Peers...)
	})
}
