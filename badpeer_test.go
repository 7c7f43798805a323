package p2pdiloco

import (
	"context"
	"errors"
	"math"
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
		n.progress()(0)
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

// A peer that lies in the reduction is named and left out; slots close on time and everybody, the liar included, holds the same.
func TestAPeerThatLiesInTheReductionIsLeftOut(t *testing.T) {
	for name, spoil := range map[string]func(Task, *allreduce.Contribution){
		"other bytes": func(_ Task, c *allreduce.Contribution) { garble(c) },
		"NaN":         offeredNaN,
	} {
		t.Run(name, func(t *testing.T) {
			inSim(t, 10*time.Millisecond, simSpec(5, 4), 4, func(s *swarm) {
				bad := s.peers[2]
				bad.drive = func(ctx context.Context, n *Node) error { return contributing(ctx, n, spoil, func(Task) {}) }
				s.start(s.peers...)
				s.finish(time.Minute, s.peers...)
				if got := s.contributions(bad); len(got) > 0 {
					t.Errorf("the liar is in the records of slots %v", got)
				}
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
