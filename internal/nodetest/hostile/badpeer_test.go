package hostile

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A peer whose inner steps diverge is told so and offers nothing; the others go on.
func TestATrainerThatGivesNaN(t *testing.T) {
	for name, bad := range map[string]float64{"NaN": math.NaN(), "infinity": math.Inf(-1)} {
		t.Run(name, func(t *testing.T) {
			nodetest.Once(t, 5, 3, func(s *nodetest.Swarm) {
				sick := s.Peers[1]
				sick.Trainer.(*nodetest.Bowl).Spoil = func(task p2pdiloco.Task, x []float32) {
					if task.Slot == 3 {
						x[nodetest.BowlElements-1] = float32(bad)
					}
				}
				s.Start(s.Peers...)
				err := s.Outcome(sick, time.After(time.Minute))
				if !errors.Is(err, p2pdiloco.ErrNotFinite) || !strings.Contains(err.Error(), "4999") {
					t.Errorf("Run of the peer with the %s: %v", name, err)
				}
				s.Finish(time.Minute, s.But(sick)...)
				if got := s.Contributions(sick); len(got) != 2 {
					t.Errorf("the sick peer is in the records of slots %v, want 1 and 2", got)
				}
			})
		})
	}
}

// garble changes every frame, so that none hashes to what was offered; once more, and it is as
// before.
func garble(c *allreduce.Contribution) {
	for f := range bowlFrames {
		c.Bytes()[f*bowlFrameBytes] ^= 1
	}
}

// The frames of bowl's vector in the default grid, and the bytes of each but the last.
const (
	bowlFrames     = 5
	bowlFrame      = 1024
	bowlFrameBytes = 4 * bowlFrame
)

// offeredNaN puts a NaN into a frame, another one each slot, and makes leaves and root fit: what a
// peer of another program may offer. allreduce.Encode refuses to make such a contribution.
func offeredNaN(slotNumber uint64, c *allreduce.Contribution) {
	b := c.Bytes()
	copy(b[int(slotNumber%bowlFrames)*bowlFrameBytes:], []byte{0, 0, 0xc0, 0x7f})
	for f, hash := range slot.Cut(b, bowlFrameBytes).Hashes {
		c.Leaves()[f].Hash = hash
	}
	c.Recommit()
}

// checkLeftOut fails where a record's outcome has a peer's lie in it: any frame, or that with the
// NaN.
func checkLeftOut(t *testing.T, r slot.Record, bad p2pdiloco.PeerID, oneFrame bool) {
	at := slices.IndexFunc(r.Contributions, func(o slot.Offer) bool { return o.Peer == bad })
	for _, s := range r.Segments {
		nan := (r.Slot % bowlFrames) * bowlFrame
		lie := !oneFrame || s.Range.Begin <= nan && nan < s.Range.End
		if at >= 0 && s.Contributors.Has(at) && lie {
			t.Errorf("slot %d: the liar is in %v", r.Slot, s.Range)
		}
	}
}

// A peer that lies in the reduction is named by the peers that meet the lie, and left out there;
// slots close on time and everybody, the liar included, holds the same. Where its bytes are what it
// offered they count: one owner's word does not have it left out by others.
func TestAPeerThatLiesInTheReductionIsLeftOut(t *testing.T) {
	for name, spoil := range map[string]func(uint64, *allreduce.Contribution){
		"other bytes": func(_ uint64, c *allreduce.Contribution) { garble(c) },
		"NaN":         offeredNaN,
	} {
		t.Run(name, func(t *testing.T) {
			nodetest.Once(t, 5, 4, func(s *nodetest.Swarm) {
				bad := s.Peers[2]
				bad.Hooks = func(h *edge.Hooks) { h.Offer = spoil }
				honest := s.Peers[0]
				honest.OnEvent = func(e p2pdiloco.Event) {
					if e.Name == "slot.applied" {
						record, _ := honest.Ledger().Record(e.Fields["height"].(uint64))
						checkLeftOut(t, record.Record, s.ID(bad), name == "NaN")
					}
				}
				s.Start(s.Peers...)
				s.Finish(time.Minute, s.Peers...)
				named := 0
				for _, p := range s.But(bad) {
					for _, e := range p.Events("peer.suspected") {
						if e.Fields["about"] != s.ID(bad) {
							t.Errorf("host %d suspects an honest peer: %v", p.Host, e.Fields)
						} else if e.Fields["reason"] == "bad_bytes" {
							named++
						}
					}
				}
				if named == 0 {
					t.Error("nobody named the liar for what it sent")
				}
			})
		})
	}
}

// A contribution that was offered and could not be used counts in the next slot, if it is not too
// stale: its bytes are kept.
func TestAnOfferThatWasLeftOutCountsInTheNextSlot(t *testing.T) {
	spec := nodetest.Spec(6, 3)
	spec.Discount = []uint64{1000, 500}
	nodetest.Run(t, spec, 3, func(s *nodetest.Swarm) {
		p := s.Peers[1]
		// Its bytes of slot 2 are not what it offered until the slot is over; then it offers
		// nothing new until slot 3 is over, too.
		var garbled *allreduce.Contribution
		p.Hooks = func(h *edge.Hooks) {
			h.Offer = func(slotNumber uint64, c *allreduce.Contribution) {
				if slotNumber == 2 {
					garbled = c
					garble(c)
				}
			}
		}
		p.Trainer.(*nodetest.Bowl).Spoil = func(task p2pdiloco.Task, _ []float32) {
			if task.Slot == 3 {
				garble(garbled)
				// takes the lock that the ledger's loop takes before it has the bytes read again
				p.Node.Load().Status()
				s.Reach(3, p)
			}
		}
		s.Start(s.Peers...)
		s.Finish(2*time.Minute, s.Peers...)
		if got := s.Contributions(p); !slices.Equal(got, []uint64{1, 3, 4, 5, 6}) {
			t.Errorf("it contributed to slots %v, want all but 2", got)
		}
	})
}
