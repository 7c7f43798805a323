package p2pdiloco

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A peer whose inner steps diverge is told so and offers nothing; the others go on.
func TestATrainerThatGivesNaN(t *testing.T) {
	for name, bad := range map[string]float64{"NaN": math.NaN(), "infinity": math.Inf(-1)} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(5, 3), 3, func(s *swarm) {
				sick := s.peers[1]
				sick.trainer.(*bowl).spoil = func(task Task, x []float32) {
					if task.Slot == 3 {
						x[bowlElements-1] = float32(bad)
					}
				}
				s.start(s.peers...)
				err := s.outcome(sick, time.After(time.Minute))
				if !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), "4999") {
					t.Errorf("Run of the peer with the %s: %v", name, err)
				}
				s.finish(time.Minute, s.but(sick)...)
				if got := s.contributions(sick); len(got) != 2 {
					t.Errorf("the sick peer is in the records of slots %v, want 1 and 2", got)
				}
			})
		})
	}
}

// contributing drives a peer whose every contribution goes through spoil after its root was taken; after is called when its slot
// has been applied.
func contributing(ctx context.Context, n *Node, spoil func(Task, *allreduce.Contribution), after func(Task)) error {
	for {
		task, err := n.next(ctx)
		if errors.Is(err, ErrRunEnded) {
			return nil
		} else if err != nil {
			return err
		}
		n.begin()
		n.report(0)
		for i, x := range n.start {
			n.local[i] = 0.5 * (x - 99)
		}
		c, err := n.encode(n.local, 20)
		if err != nil {
			return err
		}
		spoil(task, c.encoded)
		if err := n.agree(ctx, c); err != nil && !errors.Is(err, ErrRunEnded) {
			return err
		}
		after(task)
	}
}

// garble changes every frame, so that none hashes to what was offered; once more, and it is as before.
func garble(c *allreduce.Contribution) {
	for f := range bowlFrames {
		c.Bytes()[f*bowlFrameBytes] ^= 1
	}
}

// The frames of bowl's vector in the default grid, and the bytes of each but the last.
const (
	bowlFrames     = 5
	bowlFrameBytes = 4 * minFrame
)

// offeredNaN puts a NaN into a frame, another one each slot, and makes hashes and root fit: what a peer of another program may
// offer. allreduce.Commit refuses to make such a contribution, hence the detour.
func offeredNaN(task Task, c *allreduce.Contribution) {
	b := c.Bytes()
	copy(b[int(task.Slot%bowlFrames)*bowlFrameBytes:], []byte{0, 0, 0xc0, 0x7f})
	parts := (*struct {
		data   []byte
		hashes []slot.Root
		root   slot.Root
	})(unsafe.Pointer(c))
	parts.hashes = slot.FrameHashes(b, bowlFrameBytes)
	parts.root = slot.FrameRoot(parts.hashes, bowlFrameBytes, uint64(len(b)))
}

// checkLeftOut fails where a record's outcome has a peer's lie in it: any frame, or that with the NaN.
func checkLeftOut(t *testing.T, r slot.Record, bad PeerID, oneFrame bool) {
	at := slices.IndexFunc(r.Contributions, func(o slot.Offer) bool { return o.Peer == bad })
	for _, s := range r.Segments {
		nan := (r.Slot % bowlFrames) * minFrame
		lie := !oneFrame || s.Range.Begin <= nan && nan < s.Range.End
		if at >= 0 && s.Contributors.Has(at) && lie {
			t.Errorf("slot %d: the liar is in %v", r.Slot, s.Range)
		}
	}
}

// A peer that lies in the reduction is named by who meets the lie and left out there; slots close on time and everybody, the liar
// included, holds the same. Where its bytes are what it offered they count: one owner's word does not have it left out by others.
func TestAPeerThatLiesInTheReductionIsLeftOut(t *testing.T) {
	for name, spoil := range map[string]func(Task, *allreduce.Contribution){
		"other bytes": func(_ Task, c *allreduce.Contribution) { garble(c) },
		"NaN":         offeredNaN,
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(5, 4), 4, func(s *swarm) {
				bad := s.peers[2]
				bad.drive = func(ctx context.Context, n *Node) error { return contributing(ctx, n, spoil, func(Task) {}) }
				honest := s.peers[0]
				honest.on = func(e Event) {
					if e.Name == "slot.applied" {
						record, _ := honest.node.Load().worker.certified(e.Fields["height"].(uint64))
						checkLeftOut(t, record.Record, s.id(bad), name == "NaN")
					}
				}
				s.start(s.peers...)
				s.finish(time.Minute, s.peers...)
				named := 0
				for _, p := range s.but(bad) {
					for _, e := range p.events("peer.suspected") {
						if e.Fields["about"] != s.id(bad) {
							t.Errorf("host %d suspects an honest peer: %v", p.host, e.Fields)
						} else if strings.Contains(e.Fields["detail"].(string), "may not be used") {
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
