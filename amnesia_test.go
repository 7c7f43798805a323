package p2pdiloco

import (
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/membership"
)

// All die, and the first to come back has lost its ledger: it must not found the run anew, but wait for those who remember.
func TestAPeerThatLostItsLedgerFoundsNothing(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(8, 3), 3, func(s *swarm) {
		s.start(s.peers...)
		s.reach(3, s.peers...)
		for _, p := range s.peers {
			s.stop(p)
		}
		forgetful := s.founder()
		remove(t, forgetful, "ledger.log")
		founded := len(forgetful.events("run.founded"))
		s.start(forgetful)
		time.Sleep(time.Minute)
		if n := len(forgetful.events("run.founded")); n > founded {
			t.Fatalf("it founded the run %d times more", n-founded)
		}
		s.start(s.but(forgetful)...)
		s.finish(2*time.Minute, s.peers...) // also checks that every slot has one root
	})
}

// A disk that takes nothing any more ends the node, so that the others need not wait for it in every slot.
func TestAFullDiskEndsTheNode(t *testing.T) {
	var fatal error
	reported := false
	w := &worker{log: slog.New(slog.DiscardHandler), fatal: func(err error) { fatal = err }}
	full := fmt.Errorf("checkpoint: cannot write: %w", syscall.ENOSPC)
	w.failed(t.Context(), membership.WorkHold{}, full, func(membership.Report) { reported = true })
	if !errors.Is(fatal, syscall.ENOSPC) || reported {
		t.Errorf("fatal: %v, reported as a failure that may pass: %v", fatal, reported)
	}
	fatal = nil
	w.failed(t.Context(), membership.WorkHold{}, errors.New("nobody has it"), func(membership.Report) { reported = true })
	if fatal != nil || !reported {
		t.Errorf("a passing failure: fatal %v, reported %v", fatal, reported)
	}
}

// A peer loses its ledger while the others go on: it comes back as a new member.
func TestAPeerThatLostItsLedgerComesBackToALiveRun(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(24, 3), 3, func(s *swarm) {
		s.pace(30 * time.Millisecond)
		s.start(s.peers...)
		s.reach(2, s.peers...)
		forgetful := s.but(s.founder())[0]
		for range 2 { // the others have heard of more starts than the new ledger counts
			at := forgetful.applied()
			s.stop(forgetful)
			s.start(forgetful)
			s.until(time.Minute, "back", func() bool { return s.contributedAfter(forgetful, at+1) })
		}
		at := forgetful.applied()
		s.stop(forgetful)
		remove(t, forgetful, "ledger.log")
		s.start(forgetful)
		s.finish(3*time.Minute, s.peers...)
		if !s.contributedAfter(forgetful, at+1) {
			t.Error("it never contributed again")
		}
		for _, p := range s.peers {
			if p.had("peer.cloned") {
				t.Errorf("host %d: %v", p.host, p.events("peer.cloned")[0].Fields)
			}
		}
	})
}
