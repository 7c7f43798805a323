package modes

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// inStream runs a swarm of recorders in mode streaming, with 4 fragments.
func inStream(t *testing.T, rounds, startPeers uint64, peers int, f func(s *swarm, trainers []*recorder)) {
	t.Helper()
	spec := nodetest.Spec(rounds, startPeers)
	spec.Mode, spec.Fragments, spec.FragmentAlpha = p2pdiloco.ModeStreaming, 4, "0.5"
	nodetest.Run(t, spec, peers, func(s *swarm) { f(s, record(s)) })
}

// A trainer that can be given parts of its parameters is given no more than those: a whole vector a
// round, where others are given P; and with alpha 1 nothing but the first anchor and the last.
func TestPartsAreMovedAlone(t *testing.T) {
	for alpha, most := range map[string]int{"0.5": 5, "1": 2} { // vectors
		t.Run("alpha="+alpha, func(t *testing.T) {
			inStream(t, 3, 2, 2, func(s *swarm, trainers []*recorder) {
				s.Spec.FragmentAlpha = alpha
				r := trainers[1]
				// measuring moves everything
				s.Peers[0].Trainer = struct{ p2pdiloco.Trainer }{trainers[0]}
				s.Peers[1].Trainer = struct {
					p2pdiloco.Trainer
					trainer.RangeTrainer
				}{r, r}
				s.Start(s.Peers...)
				s.Finish(time.Minute, s.Peers...)
				size := int(r.Layout().Elements())
				if parts, all := r.moved, trainers[0].moved; parts > most*size || all < 3*4*size && alpha != "1" {
					t.Errorf("of %d elements %d were loaded in parts, and %d as a whole", size, parts, all)
				}
			})
		})
	}
}

// A trainer that says, when it is asked first, that it moves no parts is asked for the whole: also
// where that is before it has exported anything, because its first slots close without it.
func TestATrainerWithoutPartsIsLateInTheStream(t *testing.T) {
	inStream(t, 5, 2, 3, func(s *swarm, trainers []*recorder) {
		late := s.Peers[2]
		trainers[2].Pace = 4 * time.Second // 20 s a slot; the grace window is 5 s
		s.Start(s.But(late)...)
		s.Reach(3, s.Peers[0])
		s.Start(late)
		s.Finish(3*time.Minute, s.Peers...)
		if s.ContributedAfter(late, 0) {
			t.Errorf("it contributed to %v: its slots did not close without it", s.Contributions(late))
		}
	})
}

// saving counts how often its state is saved.
type saving struct {
	*recorder
	saves int
}

func (s *saving) Save(_ context.Context, path string) error {
	s.saves++
	return os.WriteFile(path, nil, 0o600)
}

func (s *saving) Restore(context.Context, string) error { return nil }

// A trainer's state is saved when a slot has landed, whatever the checkpoints, and once for each.
func TestATrainersStateIsSavedBySlotsInTheStream(t *testing.T) {
	inStream(t, 4, 1, 1, func(s *swarm, trainers []*recorder) {
		p, trainer := s.Peers[0], &saving{recorder: trainers[0]}
		p.Trainer, p.Config = trainer, func(c *p2pdiloco.Config) { c.CheckpointEvery = 2 }
		s.Start(p)
		s.Finish(time.Minute, p)
		if trainer.saves != 16 {
			t.Errorf("saved %d times in 4 rounds of 4 slots", trainer.saves)
		}
	})
}

// A slot that takes longer than tau lands as soon as it is there, and not at the next border only:
// here it takes some 100 ms, tau 40 ms, and what lies between two borders 300 ms.
func TestALateSlotLandsLaterInTheStream(t *testing.T) {
	inStream(t, 4, 3, 3, func(s *swarm, trainers []*recorder) {
		s.Spec.InnerSteps, s.Spec.FragmentDelay = 120, "4"
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		for _, r := range trainers {
			for slotNumber, landed := range r.landed {
				if slotNumber > 1 && (landed < 5 || landed > 20) {
					t.Errorf("the slot before %d landed after %d inner steps", slotNumber, landed)
				}
			}
		}
	})
}

// A record says how many inner steps are behind a contribution: all from border to border, though a
// slot has landed in their midst. So many the run's pace asks for. One of the peers is a loop of
// its own.
func TestStepsBehindAContributionToTheStream(t *testing.T) {
	inStream(t, 3, 2, 2, func(s *swarm, trainers []*recorder) {
		s.Spec.Fragments, s.Spec.InnerSteps, s.Spec.FragmentDelay, s.Spec.MinPeers = 3, 11, "2", 2
		trainers[0].loops(s.Peers[0])
		s.Start(s.Peers...)
		for slotNumber, want := range []uint32{1: 3, 2: 4, 3: 4, 4: 3} {
			s.Reach(uint64(slotNumber), s.Peers...)
			for _, p := range s.Peers {
				c := s.Member(s.Peers[0], p).Contribution
				if slotNumber > 0 && (c == nil || c.Slot != uint64(slotNumber) || c.Steps != want ||
					c.Assigned != want) {
					t.Errorf("host %d, slot %d: %+v, want %d steps", p.Host, slotNumber, c, want)
				}
			}
		}
		if m := s.Member(s.Peers[0], s.Peers[1]); m.Assigned != 4 {
			t.Errorf("%d steps are asked for in slot 5, want 4", m.Assigned)
		}
		s.Finish(time.Minute, s.Peers...)
	})
}

// cutShort is a recorder that hangs in slot 6, after its first step, and says of inner steps that
// are cut short what it did, as builtin:gpt does. It notes the live parameters and the anchor after
// those, and before the next ones.
type cutShort struct {
	*recorder
	peer          *peer
	before, after []float32 // live
	anchor        []float32 // after
	trained       uint64    // tokens
	until         map[uint64]uint64
}

func (c *cutShort) Train(ctx context.Context, task p2pdiloco.Task) (stats p2pdiloco.Stats, err error) {
	if c.before != nil && c.after == nil {
		c.after, c.anchor = slices.Clone(c.X), make([]float32, len(c.X))
		c.peer.Inside().Anchor(func(x []float32) { copy(c.anchor, x) })
	}
	for range task.Steps {
		if c.Pace = 10 * time.Millisecond; task.Slot == 6 && stats.Steps > 0 {
			c.Pace = time.Minute // the grace window is 5 s
		}
		if _, err = c.Bowl.Train(ctx, p2pdiloco.Task{Slot: task.Slot, Steps: 1}); err != nil {
			c.before = slices.Clone(c.X)
			return stats, err
		}
		stats.Steps++
		stats.Tokens += c.tokens
		c.trained += c.tokens
		c.until[task.Slot] = c.trained
	}
	return stats, nil
}

// A straggler misses a slot, and its inner steps are cut short while the one before is in flight.
// That one had an offer from here and lands as ever, mixed with what is live; the one that closed
// without an offer overwrites its fragment. What was cut short is in the live parameters all the
// same, and in the weight of what is contributed next. The others miss nothing.
func TestStepsThatAreCutShortInTheStream(t *testing.T) {
	inStream(t, 3, 3, 3, func(s *swarm, trainers []*recorder) {
		p := s.Peers[1]
		c := &cutShort{recorder: trainers[1], peer: p, until: make(map[uint64]uint64)}
		p.Trainer = c
		weights := make(map[uint64]uint64) // of its contributions, by slot
		p.OnEvent = func(e p2pdiloco.Event) {
			if e.Name == "slot.committed" {
				record, _ := p.Ledger().Record(e.Fields["height"].(uint64))
				for _, o := range record.Record.Contributions {
					if o.Peer == s.ID(p) {
						weights[record.Record.Slot] = o.Weight
					}
				}
			}
		}
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		if got := s.Contributions(p); !slices.Contains(got, 5) || slices.Contains(got, 6) ||
			!s.ContributedAfter(p, 6) || c.after == nil || p.Had("peer.left") {
			t.Fatalf("it contributed to slots %v, want 5 and no 6", got)
		}
		for _, q := range s.But(p) {
			if got := s.Contributions(q); len(got) != 12 {
				t.Errorf("host %d contributed to slots %v, want all 12", q.Host, got)
			}
		}
		r := newReplay(s, trainers)
		for at, alpha := range map[uint64]float32{5: r.spec.Alpha(), 6: 0} {
			for _, j := range r.outerOf(at).elements {
				if want := float32(alpha*c.before[j]) + float32((1-alpha)*c.anchor[j]); c.after[j] != want {
					t.Fatalf("slot %d has landed as %v, want %v", at, c.after[j], want)
				}
			}
		}
		// Each of these is for a fragment that landed in time the round before: it weighs what was
		// trained since that border, slot 6 included.
		compared := 0
		for slotNumber := uint64(7); slotNumber <= 8; slotNumber++ {
			weight, listed := weights[slotNumber]
			if want := c.until[slotNumber] - c.until[slotNumber-4]; listed && weight != want {
				t.Errorf("slot %d: the contribution weighs %d tokens, %d were trained", slotNumber, weight, want)
			} else if listed {
				compared++
			}
		}
		if compared == 0 {
			t.Errorf("no weight was compared: %v", weights)
		}
	})
}
