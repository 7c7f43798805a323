package nodetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// reading is what a swarm's trainers were given to train on.
type reading struct {
	t  *testing.T
	mu struct {
		sync.Mutex
		// by slot and part: the peer that trained on it
		parts map[uint64]map[uint64]p2pdiloco.PeerID
		of    map[string]uint64 // by slot and peer
		most  uint64            // the highest part
	}
}

func newReading(t *testing.T) *reading {
	r := &reading{t: t}
	r.mu.parts, r.mu.of = make(map[uint64]map[uint64]p2pdiloco.PeerID), make(map[string]uint64)
	return r
}

func handOf(s uint64, p p2pdiloco.PeerID) string { return fmt.Sprint(s, " ", p) }

func (r *reading) note(task p2pdiloco.Task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.parts[task.Slot] == nil {
		r.mu.parts[task.Slot] = make(map[uint64]p2pdiloco.PeerID)
	}
	if other, taken := r.mu.parts[task.Slot][task.Part]; taken && other != task.Self {
		r.t.Errorf("slot %d: part %d is in the hands of %s and of %s", task.Slot, task.Part, other.Short(),
			task.Self.Short())
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

// audit checks the run's records: no part is contributed twice, and all that were dealt a while ago
// are.
func (r *reading) audit(p *Peer, peers uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	contributed := make(map[uint64]uint64) // slot, by part
	for h := uint64(1); ; h++ {
		c, ok := p.Ledger().Record(h)
		if !ok {
			break
		}
		if c.Record.Kind != slot.Step {
			continue
		}
		for _, o := range c.Record.Contributions {
			part, known := r.mu.of[handOf(o.Base+1, o.Peer)]
			if !known {
				r.t.Errorf("slot %d: %s contributes what it trained for slot %d, and it did not", c.Record.Slot,
					o.Peer.Short(), o.Base+1)
			}
			if before, twice := contributed[part]; twice {
				r.t.Errorf("part %d is contributed to slot %d and to slot %d", part, before, c.Record.Slot)
			}
			contributed[part] = c.Record.Slot
		}
	}
	late := peers * (p.Node.Load().Spec().MaxStaleness() + 3) // in hands, or just come back
	for part := range r.mu.most - min(r.mu.most, late) {
		if _, ok := contributed[part]; !ok {
			r.t.Errorf("part %d of %d was never contributed", part, r.mu.most)
		}
	}
}

// reader is a bowl that is slow in some slots, as if its machine were.
type reader struct {
	Bowl
	r    *reading
	slow uint64 // every so many slots
}

func (b *reader) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	b.r.note(task)
	if b.slow > 0 && task.Slot%b.slow == 0 {
		select {
		case <-time.After(b.Pace * time.Duration(8*task.Steps)):
		case <-ctx.Done():
			return p2pdiloco.Stats{}, ctx.Err()
		}
	}
	return b.Bowl.Train(ctx, task)
}

// Peers come late, are too late, die and come back: no part is in two hands for a slot, none is
// contributed twice, and none is lost.
func TestPartsAmongPeersThatComeAndGo(t *testing.T) {
	c := Scenario{Slots: 16, Peers: 5, Start: 3, Modes: "sync delayed", Change: func(s *p2pdiloco.Spec) {
		s.Discount = []uint64{1000, 500}
	}}
	Play(t, c, func(s *Swarm) {
		r := newReading(s.T)
		for i, p := range s.Peers {
			b := &reader{Bowl: Bowl{Target: float32(p.Host), Pace: 50 * time.Millisecond}, r: r}
			if p.Trainer = b; i == 1 {
				b.slow = 3
			}
		}
		late, dies := s.Peers[4], s.Peers[3]
		s.Start(s.But(late)...)
		s.Reach(2, s.Peers[0])
		s.Start(late)
		s.Reach(5, s.Peers[0])
		s.Kill(dies)
		s.Reach(8, s.Peers[0])
		s.Restart(dies)
		s.Reach(s.Spec.Rounds, s.Peers[0])
		r.audit(s.Peers[0], 5)
		s.Finish(2*time.Minute, s.Peers...)
	})
}
