package p2pdiloco

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"
)

// inStream runs a swarm of streamer trainers in mode streaming, with 4 fragments, and checks in the end that every one that has finished is
// left with the run's last anchor.
func inStream(t *testing.T, rounds, startPeers uint64, peers int, f func(s *swarm)) {
	t.Helper()
	spec := streamSpec(rounds, startPeers, 4)
	spec.FragmentAlpha = "0.5"
	inSim(t, 10*time.Millisecond, spec, peers, func(s *swarm) {
		s.streaming()
		f(s)
		var last []float32
		for _, p := range s.peers {
			if l := streamerOf(p); l != nil && p.applied() == s.spec.LastSlot() {
				if last == nil {
					last = l.x
				}
				same(t, "what a trainer is left with", l.x, last)
			}
		}
	})
}

func streamerOf(p *simPeer) *streamer {
	switch l := p.trainer.(type) {
	case *streamer:
		return l
	case divided:
		return l.streamer
	case mute:
		return l.streamer
	}
	return nil
}

// A slot holds nobody up, whether or not its reduction takes longer than tau inner steps; but with tau 0 everybody waits for it. 200 ms of inner
// steps lie between two borders, and a slot takes about half of that, over links of 10 ms, in virtual time.
func TestTrainersDoNotStallInModeStreaming(t *testing.T) {
	for delay, stalls := range map[string]bool{"0": true, "4": false, "15": false} {
		t.Run("tau="+delay, func(t *testing.T) {
			spec := streamSpec(4, 4, 3)
			spec.InnerSteps, spec.FragmentDelay = 60, delay
			inSim(t, 10*time.Millisecond, spec, 4, func(s *swarm) {
				s.streaming()
				s.start(s.peers...)
				s.holdStall(stalls)
				s.finish(time.Minute, s.peers...)
			})
		})
	}
}

// A trainer that can be given parts of its parameters is given no more than those: a whole vector a round, where others are given P.
func TestPartsAreMovedAlone(t *testing.T) {
	inStream(t, 3, 2, 2, func(s *swarm) {
		for _, p := range s.peers {
			p.config = func(c *Config) { c.Trainer = blind{p.trainer} } // measuring moves everything
		}
		s.start(s.peers...)
		s.finish(time.Minute, s.peers...)
		whole := int(streamerOf(s.peers[0]).Layout().Elements())
		if got, want := streamerOf(s.peers[1]).moved, (1+3)*whole; got > want+whole {
			t.Errorf("%d elements were loaded in parts, want %d or somewhat less", got, want)
		}
		if got, want := streamerOf(s.peers[0]).moved, 3*4*whole; got < want {
			t.Errorf("%d elements were loaded as a whole, want %d", got, want)
		}
	})
}

// blind hides what else a trainer can do.
type blind struct{ Trainer }

func (b blind) LoadRange(ctx context.Context, begin int, src []float32) error {
	if r, ok := b.Trainer.(RangeTrainer); ok {
		return r.LoadRange(ctx, begin, src)
	}
	return errors.ErrUnsupported
}

func (b blind) ExportRange(ctx context.Context, begin int, dst []float32) error {
	if r, ok := b.Trainer.(RangeTrainer); ok {
		return r.ExportRange(ctx, begin, dst)
	}
	return errors.ErrUnsupported
}

// A straggler that misses a slot takes that slot's fragment from the anchor, and is back in time for a later one.
func TestAStragglerInTheStream(t *testing.T) {
	inStream(t, 3, 4, 4, func(s *swarm) {
		slow := s.peers[1]
		l := streamerOf(slow)
		for _, p := range s.peers {
			streamerOf(p).pace = 20 * time.Millisecond
		}
		once := false
		l.spoil = func(task Task, _ []float32) {
			if task.Slot == 6 && !once { // the grace window is 5 s
				once = true
				time.Sleep(9 * time.Second)
			}
		}
		s.start(s.peers...)
		s.finish(2*time.Minute, s.peers...)
		got := s.contributions(slow)
		if slices.Contains(got, 6) || !s.contributedAfter(slow, 6) || slow.had("peer.left") {
			s.t.Errorf("the straggler contributed to slots %v", got)
		}
		for _, p := range s.but(slow) {
			if got := s.contributions(p); len(got) != 12 {
				s.t.Errorf("host %d contributed to slots %v, want all 12", p.host, got)
			}
		}
	})
}

// A trainer that says, when it is asked first, that it moves no parts is asked for the whole: also where that is before it has exported
// anything, because its first slots close without it.
func TestATrainerWithoutPartsIsLateInTheStream(t *testing.T) {
	inStream(t, 5, 2, 3, func(s *swarm) {
		late := s.peers[2]
		if _, ok := late.trainer.(mute); !ok {
			t.Fatalf("the late peer's trainer is a %T", late.trainer)
		}
		streamerOf(late).pace = 4 * time.Second // 20 s a slot; the grace window is 5 s
		s.start(s.but(late)...)
		s.reach(3, s.peers[0])
		s.start(late)
		s.finish(3*time.Minute, s.peers...)
		if s.contributed(late) {
			t.Errorf("it contributed to %v: its slots did not close without it", s.contributions(late))
		}
	})
}

// What was trained on a branch that was given up is given up, too: all of it.
func TestAChangeOfBranchInTheStream(t *testing.T) {
	inStream(t, 7, 4, 4, func(s *swarm) {
		for _, p := range s.peers {
			streamerOf(p).pace = 400 * time.Millisecond // 2 s a slot: it takes 20 s to fork
		}
		alone, rest := s.peers[1], s.but(s.peers[1])
		s.start(s.peers...)
		s.reach(3, s.peers...)
		s.cut(true, []*simPeer{alone}, rest)
		s.until(time.Minute, "forked", func() bool { return alone.had("run.forked") })
		s.reach(alone.applied()+2, alone)
		s.cut(false, []*simPeer{alone}, rest)
		s.finish(5*time.Minute, s.peers...)
		if !alone.had("run.switched") || !s.contributedAfter(alone, 20) {
			s.t.Errorf("it contributed to %v", s.contributions(alone))
		}
	})
}

// saving counts how often its state is saved.
type saving struct {
	*streamer
	saves int
}

func (s *saving) Save(_ context.Context, path string) error {
	s.saves++
	return os.WriteFile(path, nil, 0o600)
}

func (s *saving) Restore(context.Context, string) error { return nil }

// A trainer's state is saved as often as checkpoints are made, by rounds and not by slots.
func TestATrainersStateIsSavedByRoundsInTheStream(t *testing.T) {
	inSim(t, 10*time.Millisecond, streamSpec(4, 1, 4), 1, func(s *swarm) {
		s.streaming()
		p := s.peers[0]
		trainer := &saving{streamer: streamerOf(p)}
		p.trainer, p.config = trainer, func(c *Config) { c.CheckpointEvery = 2 }
		s.start(p)
		s.finish(time.Minute, p)
		if trainer.saves != 2 {
			t.Errorf("saved %d times in 4 rounds, want every 2", trainer.saves)
		}
	})
}
