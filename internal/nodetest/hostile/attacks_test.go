package hostile

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// spoiler is a trainer that makes another pseudo-gradient of the one that it has: moved is by how
// much the inner steps have moved each parameter.
type spoiler struct {
	nodetest.Bowl
	anchor []float32
	spoil  func(slotNumber uint64, moved []float32)
	always bool // from the first slot on
}

func (s *spoiler) Load(ctx context.Context, anchor []float32) error {
	s.anchor = append(s.anchor[:0], anchor...)
	return s.Bowl.Load(ctx, anchor)
}

func (s *spoiler) Train(ctx context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	stats, err := s.Bowl.Train(ctx, task)
	if err != nil || task.Slot < firstLie && !s.always {
		return stats, err
	}
	for i, a := range s.anchor {
		s.X[i] -= a
	}
	s.spoil(task.Slot, s.X)
	for i, a := range s.anchor {
		s.X[i] += a
	}
	return stats, nil
}

// A contributor whose bytes are what it has offered breaks no rule, whatever they say: the run
// ends, honest peers have equal states, and nobody is evicted. What a robust aggregator makes of
// such values is for package allreduce.
func TestContributionsThatAttack(t *testing.T) {
	attacks := map[string]func(s *nodetest.Swarm, bad *nodetest.Peer){
		"flip":  spoils(func(_ uint64, x []float32) { scale(x, -10) }),
		"scale": spoils(func(_ uint64, x []float32) { scale(x, 1e6) }),
		"zeros": spoils(func(_ uint64, x []float32) { clear(x) }),
		"noise": spoils(func(slotNumber uint64, x []float32) {
			noise := rand.New(rand.NewPCG(slotNumber, 8))
			for i := range x {
				x[i] = 100 * float32(noise.NormFloat64())
			}
		}),
		"copy":   copies,
		"replay": replays,
	}
	if !testlevel.Nightly() {
		delete(attacks, "flip") // as in TestContributorsThatStandOut
		delete(attacks, "scale")
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			nodetest.Run(t, 10*time.Millisecond, nodetest.Spec(8, 5), 5, func(s *nodetest.Swarm) {
				bad := s.Peers[2]
				attack(s, bad)
				s.Start(s.Peers...)
				s.Finish(5*time.Minute, s.Peers...)
				checkHonest(t, s, bad)
				checkEvicted(t, s, bad, 0)
				switch name {
				case "zeros":
					checkConduct(t, s, "zeros", bad)
				case "copy":
					checkConduct(t, s, "same_bytes", bad, s.Peers[0])
				case "replay":
					checkConduct(t, s, "sent_again", bad)
				default:
					checkConduct(t, s, "none")
				}
			})
		})
	}
}

func spoils(spoil func(uint64, []float32)) func(*nodetest.Swarm, *nodetest.Peer) {
	return func(_ *nodetest.Swarm, bad *nodetest.Peer) {
		bad.Trainer = &spoiler{
			Bowl: nodetest.Bowl{Target: float32(bad.Host), Pace: 10 * time.Millisecond}, spoil: spoil,
		}
	}
}

// taken are the bytes of a contribution, with what commits to them.
type taken struct {
	sync.Mutex
	bytes  []byte
	leaves []slot.FrameLeaf
}

func (k *taken) take(c *allreduce.Contribution) {
	k.Lock()
	defer k.Unlock()
	// the peer uses the buffer again
	k.bytes, k.leaves = bytes.Clone(c.Bytes()), slices.Clone(c.Leaves())
}

// give makes a contribution of the bytes taken, in the name of whoever offers it.
func (k *taken) give(c *allreduce.Contribution) {
	k.Lock()
	defer k.Unlock()
	copy(c.Bytes(), k.bytes)
	copy(c.Leaves(), k.leaves)
	c.Recommit()
}

// copies has a peer offer what another one has offered, as soon as it knows that.
func copies(s *nodetest.Swarm, bad *nodetest.Peer) {
	var known taken
	s.Peers[0].Hooks = func(h *testhooks.Hooks) {
		h.Offer = func(_ uint64, c *allreduce.Contribution) { known.take(c) }
	}
	bad.Trainer.(*nodetest.Bowl).Pace = 12 * time.Millisecond
	bad.Hooks = func(h *testhooks.Hooks) {
		h.Offer = func(slotNumber uint64, c *allreduce.Contribution) {
			if slotNumber >= firstLie {
				known.give(c)
			}
		}
	}
}

// replays has a peer offer what it has offered long ago.
func replays(_ *nodetest.Swarm, bad *nodetest.Peer) {
	var known taken
	bad.Hooks = func(h *testhooks.Hooks) {
		h.Offer = func(slotNumber uint64, c *allreduce.Contribution) {
			if slotNumber < firstLie {
				known.take(c)
			} else {
				known.give(c)
			}
		}
	}
}
