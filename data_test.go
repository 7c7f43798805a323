package p2pdiloco

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A round takes a part where all do as many steps, and a piece of one where each does as many as it can: whatever the mode, none is
// trained twice over or left behind.
func TestPartsFollowThePace(t *testing.T) {
	for _, c := range []struct {
		spec        Spec
		rules, part uint64
		ahead       uint64
	}{
		{Spec{}, 0, 40, 0},
		{Spec{Mode: ModeSync, Pace: PaceDyLU}, 640, 640, 0},
		{Spec{Mode: ModeDelayed, Pace: PaceDeadline, RoundTime: "2"}, 640, 640, 1},
		{Spec{Mode: ModeAsync}, 640, 640, 1},
		{Spec{Mode: ModeAsync, Pace: PaceSteps}, 0, 40, 1},
		{Spec{Mode: ModeStreaming, Fragments: 3}, 0, 14, 1},
	} {
		c.spec.Name, c.spec.InnerSteps = "x", 40
		s := c.spec.Settled()
		if ahead, rules := s.dealing(); ahead != c.ahead || rules != c.rules || s.partSteps() != c.part {
			t.Errorf("mode %s, pace %s: %d slots ahead, %d steps a part for the ledger, %d for a trainer", s.Mode, s.Pace, ahead, rules, s.partSteps())
		}
	}
}

// reading is what a swarm's trainers were given to train on.
type reading struct {
	t  *testing.T
	mu struct {
		sync.Mutex
		parts map[uint64]map[uint64]PeerID // by slot and part: who
		of    map[string]uint64            // by slot and peer
		most  uint64                       // the highest part
	}
}

func newReading(t *testing.T) *reading {
	r := &reading{t: t}
	r.mu.parts, r.mu.of = make(map[uint64]map[uint64]PeerID), make(map[string]uint64)
	return r
}

func handOf(s uint64, p PeerID) string { return fmt.Sprint(s, " ", p) }

func (r *reading) note(task Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.parts[task.Slot] == nil {
		r.mu.parts[task.Slot] = make(map[uint64]PeerID)
	}
	if other, taken := r.mu.parts[task.Slot][task.Part]; taken && other != task.Self {
		r.t.Errorf("slot %d: part %d is in the hands of %s and of %s", task.Slot, task.Part, other.Short(), task.Self.Short())
	}
	hand := handOf(task.Slot, task.Self)
	if part, again := r.mu.of[hand]; again && part != task.Part {
		r.t.Errorf("slot %d: %s trains on part %d, and on part %d", task.Slot, task.Self.Short(), part, task.Part)
	}
	if task.PartSteps != 20 || task.Done != 0 {
		r.t.Errorf("a task of %d steps of a part of %d, %d of them done", task.Steps, task.PartSteps, task.Done)
	}
	r.mu.parts[task.Slot][task.Part], r.mu.of[hand] = task.Self, task.Part
	r.mu.most = max(r.mu.most, task.Part)
}

// audit checks the run's records: no part is contributed twice, and all that were dealt a while ago are.
func (r *reading) audit(n *Node, peers uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	contributed := make(map[uint64]uint64) // slot, by part
	for h := uint64(1); ; h++ {
		c, ok := n.driver.Record(h)
		if !ok {
			break
		}
		if c.Record.Kind != slot.Step {
			continue
		}
		for _, o := range c.Record.Contributions {
			part, known := r.mu.of[handOf(o.Base+1, o.Peer)]
			if !known {
				r.t.Errorf("slot %d: %s contributes what it trained for slot %d, and it did not", c.Record.Slot, o.Peer.Short(), o.Base+1)
			}
			if before, twice := contributed[part]; twice {
				r.t.Errorf("part %d is contributed to slot %d and to slot %d", part, before, c.Record.Slot)
			}
			contributed[part] = c.Record.Slot
		}
	}
	late := peers * (n.spec.MaxStaleness() + 3) // in hands, or just come back
	for part := range r.mu.most - min(r.mu.most, late) {
		if _, ok := contributed[part]; !ok {
			r.t.Errorf("part %d of %d was never contributed", part, r.mu.most)
		}
	}
}

// reader is a bowl that is slow in some slots, as if its machine were.
type reader struct {
	bowl
	r    *reading
	slow uint64 // every so many slots
}

func (b *reader) Train(ctx context.Context, task Task) (Stats, error) {
	b.r.note(task)
	if b.slow > 0 && task.Slot%b.slow == 0 {
		select {
		case <-time.After(b.pace * time.Duration(8*task.Steps)):
		case <-ctx.Done():
			return Stats{}, ctx.Err()
		}
	}
	return b.bowl.Train(ctx, task)
}

// Peers come late, are too late, die and come back: no part is in two hands for a slot, none is contributed twice, and none is lost.
func TestPartsAmongPeersThatComeAndGo(t *testing.T) {
	for _, mode := range []string{ModeSync, ModeDelayed} {
		t.Run(mode, func(t *testing.T) {
			spec := simSpec(16, 3)
			spec.Mode, spec.Discount = mode, []uint64{1000, 500}
			inSim(t, 10*time.Millisecond, spec, 5, func(s *swarm) {
				r := newReading(t)
				for i, p := range s.peers {
					b := &reader{bowl: bowl{target: float32(p.host), pace: 50 * time.Millisecond}, r: r}
					if p.trainer = b; i == 1 {
						b.slow = 3
					}
				}
				late, dies := s.peers[4], s.peers[3]
				s.start(s.but(late)...)
				s.reach(2, s.peers[0])
				s.start(late)
				s.reach(5, s.peers[0])
				s.kill(dies)
				s.reach(8, s.peers[0])
				s.restart(dies)
				s.reach(spec.Rounds, s.peers[0])
				r.audit(s.peers[0].node.Load(), 5)
				s.finish(2*time.Minute, s.peers...)
			})
		})
	}
}
