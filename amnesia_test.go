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
