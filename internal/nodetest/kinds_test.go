package nodetest

import (
	"sync"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
)

// attack is what bad peers do, and what it may cost.
type attack struct {
	kind  string   // of package hostile
	leave []uint64 // instead, each leaves after that slot
	free  bool     // must cost nothing but the data of those that are evicted
	// how many of so many bad peers must be named in time; nil: all (docs/why/trust.md)
	least func(bad int) int
}

var attacks = []attack{
	{kind: "flip", least: oneBeyondLiars},
	{kind: "flip-10"},
	{kind: "scale"},
	{kind: "little", least: twoOfSeveral},
	{kind: "inner-product", least: oneBeyondLiars},
	{kind: "replay"},
	{kind: "zeros"},
	{kind: "copy"},
	{kind: "weight"},
	{kind: "false-norms"},
	{kind: "hide"},
	{kind: "equivocate-owners"},
	{kind: "bad-auditor", free: true},
	{kind: "owner-1", free: true},
	{kind: "owner-one-frame", free: true},
}

func names() (all []string) {
	for _, a := range attacks {
		all = append(all, a.kind)
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

// arm has a bad peer do what its kind does, or leave.
func (b *bout) arm(p *Peer) {
	if b.attack.leave != nil {
		b.leaves(p)
		return
	}
	p.Hooks = func(h *edge.Hooks) {
		kind, _ := hostile.Find(b.attack.kind)
		hostile.Peer{Kind: kind, Folder: b.folder, Others: b.offered}.Turn(b.ctx, h)
	}
}

// leaves is what it costs that bad peers are evicted: each leaves with its offer to a slot, which
// still counts. In mode streaming the next one is on its way once that slot is applied. For slot 0
// a peer leaves before it contributes.
func (b *bout) leaves(p *Peer) {
	last, told, once := b.attack.leave[len(b.bad)-1], make(chan struct{}), sync.Once{}
	leaves := func() { once.Do(func() { close(told) }) }
	LeaveWhen(told, p)
	p.Hooks = func(h *edge.Hooks) {
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
}

// began is the slot of a bad peer's first lie; 0: it has not lied.
func (b *bout) began(p *Peer) uint64 { return hostile.FirstDeed(b.folder, b.s.ID(p).String()) }
