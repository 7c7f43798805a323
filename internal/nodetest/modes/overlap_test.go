package modes

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
)

// stalls returns the share of the time between two slots for which each trainer stood still.
func stalls(s *swarm, from, to uint64) (shares []float64) {
	s.Reach(from, s.Peers...)
	var first []p2pdiloco.Status
	for _, p := range s.Peers {
		first = append(first, p.Node.Load().Status())
	}
	s.Reach(to, s.Peers...)
	for i, p := range s.Peers {
		last := p.Node.Load().Status()
		stall, training := last.Stall-first[i].Stall, last.Training-first[i].Training
		shares = append(shares, stall.Seconds()/(stall+training).Seconds())
	}
	return shares
}

// A reduction that takes less time than the inner steps holds nobody up; in mode sync 30% of the
// time goes that way, with 200 ms of inner steps and links of 10 ms. In virtual time; what is left
// is a link's delay now and then, for a peer that is ahead of the others. The founder waits for the
// others, and is as far ahead of them in slot 3 as can be.
func TestTrainersDoNotStallBesideAReduction(t *testing.T) {
	for _, modes := range []string{"sync", "delayed eager streaming async"} {
		t.Run(modes, func(t *testing.T) {
			nodetest.Play(t, scenario{Slots: 12, Peers: 4, Modes: modes}, func(s *swarm) {
				s.Start(s.Peers...)
				for i, share := range stalls(s, 3, 11) {
					if waits := modes == "sync"; waits != (share > 0.25) || !waits && share > 0.02 {
						s.T.Errorf("host %d stalled for %.1f%% of its time", s.Peers[i].Host, 100*share)
					}
				}
				s.Finish(time.Minute, s.Peers...)
			})
		})
	}
}

// A straggler whose slots close without it starts from the newest anchor each time, and stays a
// member. In mode async it is given less to do: TestAPeerThatSlowsDownIsGivenLess; for mode
// streaming see TestStepsThatAreCutShortInTheStream.
func TestAStragglerDoesNotHoldUpTheSlots(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 5, Peers: 4, Modes: "sync delayed eager"}, func(s *swarm) {
		slow := s.Peers[1]
		s.Pace(20 * time.Millisecond)
		// 12 s a round; the grace window is 5 s
		slow.Trainer.(*nodetest.Bowl).Pace = 600 * time.Millisecond
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		for _, p := range s.Peers {
			if got := s.Contributions(p); len(got) != map[bool]int{false: 5}[p == slow] || p.Had("peer.left") {
				s.T.Errorf("host %d contributed to slots %v, and saw %v", p.Host, got, p.Events("peer.left"))
			}
		}
		slow.Troubled.Store(true)
	})
}

// A contribution that is offered when its slot has a plan without it enters the next slot, where
// late ones count, though the peer's next one is ready before that slot's plan: that one waits
// behind it, and loses nothing either. In mode sync the newer one takes the older one's place.
func TestWhatASlotLeftOutIsNotReplaced(t *testing.T) {
	c := scenario{Slots: 5, Peers: 4, Modes: "sync delayed eager", Change: func(s *p2pdiloco.Spec) {
		s.Discount = []uint64{1000, 500}
	}}
	nodetest.Play(t, c, func(s *swarm) {
		late, by := s.Peers[1], s.Peers[0]
		bases := make(map[uint64]uint64) // of its contributions, by slot
		missesSlot2(s, late)
		by.OnEvent = func(e p2pdiloco.Event) {
			if e.Name == "slot.applied" {
				record, _ := by.Ledger().Record(e.Fields["height"].(uint64))
				for _, o := range record.Record.Contributions {
					if o.Peer == s.ID(late) {
						bases[record.Record.Slot] = o.Base
					}
				}
			}
		}
		s.Start(s.Peers...)
		s.Finish(3*time.Minute, s.Peers...)
		behind := uint64(2)
		if s.Spec.Mode == p2pdiloco.ModeSync {
			behind = 1
		}
		if _, listed := bases[2]; listed || bases[3] != 3-behind || bases[4] != 4-behind {
			s.T.Errorf("bases by slot: %v; want none in slot 2, and %d slots behind", bases, behind)
		}
	})
}

// missesSlot2 has a peer offer for slot 2 once that has a plan, and the others for slot 3 once that
// peer's next contribution is ready.
func missesSlot2(s *swarm, late *peer) {
	var next atomic.Bool
	for _, p := range s.Peers {
		p.Trainer.(*nodetest.Bowl).Spoil = func(task p2pdiloco.Task, _ []float32) {
			switch {
			case p == late && task.Slot == 2:
				s.Until(2*time.Minute, "planned without it", func() bool {
					return slices.ContainsFunc(late.Events("slot.planned"), func(e p2pdiloco.Event) bool {
						return e.Fields["slot"] == uint64(2)
					})
				})
			case p == late && task.Slot == 3:
				next.Store(true)
			case task.Slot == 3:
				s.Until(2*time.Minute, "the late peer's next", next.Load)
				time.Sleep(time.Second)
			}
		}
	}
}

// Programs with loops of their own, by Sync and by Begin and Finish, among trainers; and a NaN,
// which spoils nothing.
func TestOwnLoopsAmongTrainers(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 6, Peers: 3}, func(s *swarm) {
		s.Spec.MinPeers = 3
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *peer) error { return rounds(ctx, n, s, p) })
		s.Peers[1].Main = func(ctx context.Context, n *p2pdiloco.Node) error { return withNaN(ctx, n, s, s.Peers[1]) }
		s.Peers[2].Config, s.Peers[2].Main = nil, nil
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		for _, p := range s.Peers {
			if n := len(s.Contributions(p)); n != 6 {
				s.T.Errorf("host %d contributed to %d slots of 6", p.Host, n)
			}
		}
	})
}

// rounds uses Begin and Finish, and tries in between what must not be done.
func rounds(ctx context.Context, n *p2pdiloco.Node, s *swarm, p *peer) error {
	fails := func(what string, want, err error) {
		if !errors.Is(err, want) {
			s.T.Errorf("%s: %v", what, err)
		}
	}
	params, held := make([]float32, nodetest.BowlElements), make([]float32, nodetest.BowlElements)
	_, err := n.Begin(params, 1)
	fails("Begin before Anchor", p2pdiloco.ErrNoAnchor, err)
	slot, err := n.Anchor(ctx, params)
	for err == nil {
		p.Descend(params)
		r, err2 := n.Begin(params, 20)
		if err2 != nil {
			return err2
		}
		clear(params) // they are free again
		before := slot
		if slot, err = r.Finish(nodetest.Expired(), params); nodetest.Ended(err) == nil {
			continue // in an overlapped mode there may be nothing to wait for
		}
		fails("Finish when the time was over", context.Canceled, err)
		_, err = n.Anchor(ctx, held)
		fails("Anchor before Finish", p2pdiloco.ErrRoundOpen, err)
		_, err = n.Begin(held, 1)
		fails("Begin before Finish", p2pdiloco.ErrRoundOpen, err)
		fails("Sync before Finish", p2pdiloco.ErrRoundOpen, n.Sync(ctx, held, 1))
		_, err = r.Finish(ctx, held[1:])
		fails("Finish with too short a vector", p2pdiloco.ErrLength, err)
		if slot, err = r.Finish(ctx, params); nodetest.Ended(err) == nil && slot <= before {
			s.T.Errorf("slot %d after slot %d", slot, before)
		}
		_, again := r.Finish(ctx, held)
		fails("Finish for the second time", p2pdiloco.ErrNoRound, again)
	}
	_, again := n.Anchor(ctx, held)
	if fails("Anchor at the end", p2pdiloco.ErrRunEnded, again); !slices.Equal(held, params) {
		s.T.Error("the parameters at the end are not the run's")
	}
	return nodetest.Ended(err)
}

func withNaN(ctx context.Context, n *p2pdiloco.Node, s *swarm, p *peer) error {
	params := make([]float32, nodetest.BowlElements)
	_, err := n.Anchor(ctx, params)
	for err == nil {
		start := slices.Clone(params)
		for i := range params { // of every fragment
			params[i] = float32(math.NaN())
		}
		_, wrong := n.Begin(params, 1)
		if err := n.Sync(ctx, params, 1); !errors.Is(err, p2pdiloco.ErrNotFinite) ||
			!errors.Is(wrong, p2pdiloco.ErrNotFinite) {
			s.T.Errorf("Sync and Begin with a NaN: %v, %v", err, wrong)
		}
		copy(params, start)
		p.Descend(params)
		err = n.Sync(ctx, params, 20)
	}
	return nodetest.Ended(err)
}

// A Sync that is given up leaves its offer. In mode sync the next one starts from the same anchor
// or a later one; elsewhere the caller's vector is no longer where the node's starts, and only
// Anchor leads on.
func TestASyncThatIsGivenUp(t *testing.T) {
	nodetest.Play(t, scenario{Slots: 4, Peers: 2}, func(s *swarm) {
		s.OwnLoops(func(ctx context.Context, n *p2pdiloco.Node, p *peer) error {
			params := make([]float32, nodetest.BowlElements)
			_, err := n.Anchor(ctx, params)
			for round := 0; err == nil; round++ {
				p.Descend(params)
				if p == s.Peers[0] && round == 1 {
					if err := n.Sync(nodetest.Expired(), params, 1); !errors.Is(err, context.Canceled) {
						s.T.Errorf("Sync with a context that has ended: %v", err)
					}
					if s.Spec.Mode != p2pdiloco.ModeSync {
						if err := n.Sync(ctx, params, 20); !errors.Is(err, p2pdiloco.ErrNoAnchor) {
							s.T.Errorf("Sync after one that was given up: %v", err)
						}
						if _, err = n.Anchor(ctx, params); err != nil {
							break
						}
						p.Descend(params)
					}
				}
				err = n.Sync(ctx, params, 20)
			}
			return nodetest.Ended(err)
		})
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
	})
}

// Runs with lossy codecs end, with equal states, in the modes that have no replay of them, where a
// peer dies and comes again.
func TestLossyCodecsInOtherModes(t *testing.T) {
	c := scenario{Slots: 14, Peers: 3, Modes: "streaming async", Change: func(s *p2pdiloco.Spec) {
		s.Codec = map[string]string{p2pdiloco.ModeStreaming: codec.Int4, p2pdiloco.ModeAsync: codec.Sign}[s.Mode]
	}}
	diesAndComesAgain(t, c)
}

// With topk in every mode; the newcomers' state has sums of sparse contributions.
func TestTopKInEveryMode(t *testing.T) {
	diesAndComesAgain(t, scenario{Slots: 14, Peers: 4, Change: func(s *p2pdiloco.Spec) { s.Codec = codec.TopK }})
}

func diesAndComesAgain(t *testing.T, c scenario) {
	nodetest.Play(t, c, func(s *swarm) {
		s.Start(s.Peers...)
		s.Reach(2, s.Peers...)
		s.Kill(s.Peers[1])
		s.Reach(4, s.But(s.Peers[1])...)
		s.Restart(s.Peers[1])
		s.Finish(2*time.Minute, s.Peers...)
		for _, p := range s.Peers {
			if !s.ContributedAfter(p, 4) {
				s.T.Errorf("host %d contributed to %v", p.Host, s.Contributions(p))
			}
		}
	})
}
