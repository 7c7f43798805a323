package attacks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/node/testhooks"
	"github.com/p2pdiloco/p2pdiloco/internal/nodetest"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// attack is a way to do harm.
type attack struct {
	name     string
	free     bool // must cost nothing but the data of those that are evicted
	proven   bool // a proof evicts them
	again    bool // bad peers send what they have truly offered before
	opposite bool // bad peers point the other way than honest ones
	// how many of so many bad peers must be named in time; nil: all (docs/operations/trust.md)
	least    func(bad int) int
	refused  string // words of the refusals that name them
	founders int    // that four strangers join: compared with these alone; 0: no strangers
	// open says why the present code does not withstand it; empty: it does
	open string
	arm  func(b *bout, p *nodetest.Peer)
}

var attacks = []attack{
	{name: "flip-1", opposite: true, least: oneBeyondLiars, arm: offers(scaled(-1))},
	{name: "flip-10", arm: offers(scaled(-10))},
	{name: "scale-1e6", arm: offers(scaled(1e6))},
	{name: "noise-100", arm: offers(noise)},
	{name: "little", least: twoOfSeveral, arm: offers(little)},
	{name: "inner-product", opposite: true, least: oneBeyondLiars, arm: offers(innerProduct)},
	{name: "replay", again: true, arm: offers(replay)},
	{name: "zeros", arm: offers(scaled(0))},
	{name: "copy", arm: offers(twin)},
	{name: "weight", arm: func(b *bout, p *nodetest.Peer) {
		p.Trainer.(*student).claims = 1 << 50 // from its first contribution on
		p.Hooks = func(h *testhooks.Hooks) {
			h.Offer = func(slotNumber uint64, _ *allreduce.Contribution) { b.begins(p, slotNumber) }
		}
	}},
	{name: "false-norms", proven: true, arm: falseNorms},
	{name: "hide", arm: hide},
	{name: "equivocate-owners", proven: true, arm: lab("equivocate-owners")},
	{name: "bad-auditor", free: true, refused: "proves nothing", arm: lab("bad-auditor")},
	{name: "strangers-flip-10", founders: 3, arm: offers(scaled(-10))},
	{name: "strangers-scale-1e6", founders: 3, arm: offers(scaled(1e6))},
	{name: "strangers-flip-1", founders: 3, arm: offers(scaled(-1))},
	{name: "strangers-of-4-flip-10", founders: 4, arm: offers(scaled(-10))},
	{name: "strangers-of-4-scale-1e6", founders: 4, arm: offers(scaled(1e6))},
	{name: "strangers-of-4-flip-1", founders: 4, arm: offers(scaled(-1))},
	{name: "owner-10", free: true, proven: true, arm: owns(func(_ uint64, _ int, x []float32) { scale(x, -10) })},
	{name: "owner-1", free: true, proven: true, arm: owns(func(_ uint64, _ int, x []float32) { scale(x, -1) })},
	{name: "owner-one-frame", free: true, proven: true, arm: owns(oneFrame())},
	{name: "owner-zeros", free: true, proven: true, arm: owns(func(_ uint64, _ int, x []float32) { clear(x) })},
	{name: "owner-stale", free: true, proven: true, arm: staleOwner},
}

func names() (all []string) {
	for _, a := range attacks {
		all = append(all, a.name)
	}
	return all
}

// oneBeyondLiars is for peers that send the opposite. With more than f of them the others have too
// little in common for cosines.
func oneBeyondLiars(bad int) int {
	if bad > liars {
		return 1
	}
	return bad
}

// twoOfSeveral is for values that are like an honest peer's. Nobody can tell one such peer, and two
// are told by sending the same bytes. A third one has seen other peers' values.
func twoOfSeveral(bad int) int {
	if bad < 2 {
		return 0
	}
	return 2
}

func scale(x []float32, by float32) {
	for i := range x {
		x[i] *= by
	}
}

// spoil makes other values of a contribution's, for the slot.
type spoil func(b *bout, p *nodetest.Peer, slotNumber uint64, x []float32)

// offers has a peer offer spoilt values, with hashes and norms that fit.
func offers(spoil spoil) func(*bout, *nodetest.Peer) {
	return func(b *bout, p *nodetest.Peer) {
		p.Hooks = func(h *testhooks.Hooks) {
			h.Offer = func(slotNumber uint64, c *allreduce.Contribution) {
				if b.lies(p, slotNumber) {
					x := hostile.Values(c)
					spoil(b, p, slotNumber, x)
					hostile.Commit(c, x)
				} else {
					b.note(p, slotNumber, c)
				}
			}
		}
	}
}

func scaled(by float32) spoil {
	return func(_ *bout, _ *nodetest.Peer, _ uint64, x []float32) { scale(x, by) }
}

// noise is a hundred times as long as what it replaces.
func noise(_ *bout, p *nodetest.Peer, slotNumber uint64, x []float32) {
	draw, sum := rand.New(rand.NewPCG(slotNumber, uint64(p.Host))), 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	size := 100 * math.Sqrt(sum/float64(len(x)))
	for i := range x {
		x[i] = float32(size * draw.NormFloat64())
	}
}

// little is "a little is enough" (Baruch et al. 2019): all bad peers send what lies 1.5 standard
// deviations beside the mean of the honest ones.
func little(b *bout, _ *nodetest.Peer, slotNumber uint64, x []float32) {
	b.overHonest(slotNumber, x, func(mean, sd float64) float64 { return mean - 1.5*sd })
}

// innerProduct is inner product manipulation (Xie et al. 2020): the opposite of half of the mean of
// the honest ones.
func innerProduct(b *bout, _ *nodetest.Peer, slotNumber uint64, x []float32) {
	b.overHonest(slotNumber, x, func(mean, _ float64) float64 { return -mean / 2 })
}

// replay sends what the peer itself sent before the attack.
func replay(b *bout, p *nodetest.Peer, slotNumber uint64, x []float32) {
	copy(x, b.offered(p, slotNumber))
}

// twin sends what an honest peer has offered.
func twin(b *bout, _ *nodetest.Peer, slotNumber uint64, x []float32) {
	copy(x, b.offered(b.honest[0], slotNumber))
}

// lab has a peer do what hostile processes of a kind do (package hostile).
func lab(kind string) func(*bout, *nodetest.Peer) {
	return func(b *bout, p *nodetest.Peer) {
		folder := b.s.T.TempDir()
		p.Hooks = func(h *testhooks.Hooks) {
			if err := hostile.Turn(b.ctx, h, kind, folder); err != nil {
				b.s.T.Error(err)
			}
		}
		p.OnEvent = func(e p2pdiloco.Event) {
			if e.Name != "slot.applied" {
				return
			}
			if next := e.Fields["slot"].(uint64) + 1; next >= firstLie {
				b.begins(p, next)
				if err := os.WriteFile(filepath.Join(folder, "begin"), nil, 0o600); err != nil {
					b.s.T.Error(err)
				}
			}
		}
	}
}

// leave is what it costs that bad peers are evicted: each leaves with its offer to a slot, which
// still counts. In mode streaming the next one is on its way once that slot is applied. For slot 0
// a peer leaves before it contributes.
func leave(after []uint64) attack {
	return attack{name: fmt.Sprintf("leave-after-%v", after), arm: func(b *bout, p *nodetest.Peer) {
		last, told, once := after[len(b.bad)-1], make(chan struct{}), sync.Once{}
		leaves := func() { once.Do(func() { close(told) }) }
		nodetest.LeaveWhen(told, p)
		p.Hooks = func(h *testhooks.Hooks) {
			h.Offer = func(slotNumber uint64, _ *allreduce.Contribution) {
				if slotNumber >= last {
					leaves()
				}
			}
		}
		p.OnEvent = func(p2pdiloco.Event) {
			if last == 0 {
				leaves()
			}
		}
	}}
}

// falseNorms commits to norms that the frames do not have.
func falseNorms(b *bout, p *nodetest.Peer) {
	p.Hooks = func(h *testhooks.Hooks) {
		h.Offer = func(slotNumber uint64, c *allreduce.Contribution) {
			if b.lies(p, slotNumber) {
				for f := range c.Leaves() {
					c.Leaves()[f].NormSq *= 4
				}
				c.Recommit()
			}
		}
	}
}

// hide gives owners what was offered, and shows auditors nothing.
func hide(b *bout, p *nodetest.Peer) {
	p.Hooks = func(h *testhooks.Hooks) {
		h.Streams = func(protocol string, opened bool, s wire.Stream) wire.Stream {
			if opened || protocol != p2p.ProtocolAudit || !b.lies(p, p.Applied()+1) {
				return s
			}
			return silent{s}
		}
	}
}

// silent is a stream on which nothing is answered, until the other side gives it up.
type silent struct{ wire.Stream }

func (silent) Write(b []byte) (int, error) { return len(b), nil }
func (silent) Close() error                { return nil }

// lie is what an owner makes of the values of a frame.
type lie func(slotNumber uint64, frame int, x []float32)

func owns(lie lie) func(*bout, *nodetest.Peer) {
	return func(b *bout, p *nodetest.Peer) {
		p.Hooks = func(h *testhooks.Hooks) {
			h.Reduced = func(slotNumber uint64, frame int, x []float32) {
				if b.lies(p, slotNumber) {
					lie(slotNumber, frame, x)
				}
			}
		}
	}
}

// oneFrame changes the first frame alone that is reduced in a slot.
func oneFrame() lie {
	spoilt, which := uint64(0), 0
	return func(slotNumber uint64, frame int, x []float32) {
		if spoilt != slotNumber {
			spoilt, which = slotNumber, frame
		}
		if frame == which {
			scale(x, 30)
		}
	}
}

// staleOwner gives the outcome of the slot before.
func staleOwner(b *bout, p *nodetest.Peer) {
	kept := map[int][]float32{}
	p.Hooks = func(h *testhooks.Hooks) {
		h.Reduced = func(slotNumber uint64, frame int, x []float32) {
			before := kept[frame]
			kept[frame] = slices.Clone(x)
			if b.lies(p, slotNumber) {
				clear(x)
				copy(x, before)
			}
		}
	}
}
