package modes

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// inStream runs a swarm of streamer trainers in mode streaming, with 4 fragments, and checks in the
// end that every one that has finished is left with the run's last anchor.
func inStream(t *testing.T, rounds, startPeers uint64, peers int, f func(s *nodetest.Swarm)) {
	t.Helper()
	spec := streamSpec(rounds, startPeers, 4)
	spec.FragmentAlpha = "0.5"
	nodetest.Run(t, 10*time.Millisecond, spec, peers, func(s *nodetest.Swarm) {
		streaming(s)
		f(s)
		var last []float32
		for _, p := range s.Peers {
			if l := streamerOf(p); l != nil && p.Applied() == s.Spec.LastSlot() {
				if last == nil {
					last = l.X
				}
				nodetest.SameVectors(t, "what a trainer is left with", l.X, last)
			}
		}
	})
}

func streamerOf(p *nodetest.Peer) *streamer {
	switch l := p.Trainer.(type) {
	case *streamer:
		return l
	case divided:
		return l.streamer
	case mute:
		return l.streamer
	}
	return nil
}

// A slot holds nobody up, whether or not its reduction takes longer than tau inner steps; but with
// tau 0 everybody waits for it. 200 ms of inner steps lie between two borders, and a slot takes
// about half of that, over links of 10 ms, in virtual time.
func TestTrainersDoNotStallInModeStreaming(t *testing.T) {
	for delay, stalls := range map[string]bool{"0": true, "4": false, "15": false} {
		t.Run("tau="+delay, func(t *testing.T) {
			spec := streamSpec(4, 4, 3)
			spec.InnerSteps, spec.FragmentDelay = 60, delay
			nodetest.Run(t, 10*time.Millisecond, spec, 4, func(s *nodetest.Swarm) {
				streaming(s)
				s.Start(s.Peers...)
				holdStall(s, stalls)
				s.Finish(time.Minute, s.Peers...)
			})
		})
	}
}

// A trainer that can be given parts of its parameters is given no more than those: a whole vector a
// round, where others are given P.
func TestPartsAreMovedAlone(t *testing.T) {
	inStream(t, 3, 2, 2, func(s *nodetest.Swarm) {
		for _, p := range s.Peers {
			// measuring moves everything
			p.Config = func(c *p2pdiloco.Config) { c.Trainer = blind{p.Trainer} }
		}
		s.Start(s.Peers...)
		s.Finish(time.Minute, s.Peers...)
		whole := int(streamerOf(s.Peers[0]).Layout().Elements())
		if got, want := streamerOf(s.Peers[1]).moved, (1+3)*whole; got > want+whole {
			t.Errorf("%d elements were loaded in parts, want %d or somewhat less", got, want)
		}
		if got, want := streamerOf(s.Peers[0]).moved, 3*4*whole; got < want {
			t.Errorf("%d elements were loaded as a whole, want %d", got, want)
		}
	})
}

// blind hides what else a trainer can do.
type blind struct{ p2pdiloco.Trainer }

func (b blind) LoadRange(ctx context.Context, begin int, src []float32) error {
	if r, ok := b.Trainer.(p2pdiloco.RangeTrainer); ok {
		return r.LoadRange(ctx, begin, src)
	}
	return errors.ErrUnsupported
}

func (b blind) ExportRange(ctx context.Context, begin int, dst []float32) error {
	if r, ok := b.Trainer.(p2pdiloco.RangeTrainer); ok {
		return r.ExportRange(ctx, begin, dst)
	}
	return errors.ErrUnsupported
}

// A straggler that misses a slot takes that slot's fragment from the anchor, and is back in time
// for a later one.
func TestAStragglerInTheStream(t *testing.T) {
	inStream(t, 3, 4, 4, func(s *nodetest.Swarm) {
		slow := s.Peers[1]
		l := streamerOf(slow)
		for _, p := range s.Peers {
			streamerOf(p).Pace = 20 * time.Millisecond
		}
		once := false
		l.Spoil = func(task p2pdiloco.Task, _ []float32) {
			if task.Slot == 6 && !once { // the grace window is 5 s
				once = true
				time.Sleep(9 * time.Second)
			}
		}
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		got := s.Contributions(slow)
		if slices.Contains(got, 6) || !s.ContributedAfter(slow, 6) || slow.Had("peer.left") {
			s.T.Errorf("the straggler contributed to slots %v", got)
		}
		for _, p := range s.But(slow) {
			if got := s.Contributions(p); len(got) != 12 {
				s.T.Errorf("host %d contributed to slots %v, want all 12", p.Host, got)
			}
		}
	})
}

// A trainer that says, when it is asked first, that it moves no parts is asked for the whole: also
// where that is before it has exported anything, because its first slots close without it.
func TestATrainerWithoutPartsIsLateInTheStream(t *testing.T) {
	inStream(t, 5, 2, 3, func(s *nodetest.Swarm) {
		late := s.Peers[2]
		if _, ok := late.Trainer.(mute); !ok {
			t.Fatalf("the late peer's trainer is a %T", late.Trainer)
		}
		streamerOf(late).Pace = 4 * time.Second // 20 s a slot; the grace window is 5 s
		s.Start(s.But(late)...)
		s.Reach(3, s.Peers[0])
		s.Start(late)
		s.Finish(3*time.Minute, s.Peers...)
		if s.Contributed(late) {
			t.Errorf("it contributed to %v: its slots did not close without it", s.Contributions(late))
		}
	})
}

// What was trained on a branch that was given up is given up, too: all of it. One of four forks
// with trust crash alone.
func TestAChangeOfBranchInTheStream(t *testing.T) {
	inStream(t, 7, 4, 4, func(s *nodetest.Swarm) {
		s.Spec.Trust = p2pdiloco.TrustCrash
		for _, p := range s.Peers {
			streamerOf(p).Pace = 400 * time.Millisecond // 2 s a slot: it takes 20 s to fork
		}
		alone, rest := s.Peers[1], s.But(s.Peers[1])
		s.Start(s.Peers...)
		s.Reach(3, s.Peers...)
		s.Cut(true, []*nodetest.Peer{alone}, rest)
		s.Until(time.Minute, "forked", func() bool { return alone.Had("run.forked") })
		s.Reach(alone.Applied()+2, alone)
		s.Cut(false, []*nodetest.Peer{alone}, rest)
		s.Finish(5*time.Minute, s.Peers...)
		if !alone.Had("run.switched") || !s.ContributedAfter(alone, 20) {
			s.T.Errorf("it contributed to %v", s.Contributions(alone))
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

// A trainer's state is saved when a slot has landed, whatever the checkpoints, and once for each.
func TestATrainersStateIsSavedBySlotsInTheStream(t *testing.T) {
	nodetest.Run(t, 10*time.Millisecond, streamSpec(4, 1, 4), 1, func(s *nodetest.Swarm) {
		streaming(s)
		p := s.Peers[0]
		trainer := &saving{streamer: streamerOf(p)}
		p.Trainer, p.Config = trainer, func(c *p2pdiloco.Config) { c.CheckpointEvery = 2 }
		s.Start(p)
		s.Finish(time.Minute, p)
		if trainer.saves != 16 {
			t.Errorf("saved %d times in 4 rounds of 4 slots", trainer.saves)
		}
	})
}
