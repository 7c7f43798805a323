package replica

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A contribution stands until a record lists it as this peer's. Where another peer's contribution
// of the same bytes is listed, this one is still asked for.
func TestAContributionIsSettledByItsOwnPeersOffer(t *testing.T) {
	root := slot.Root{7}
	for name, c := range map[string]struct {
		slot   uint64
		listed []slot.Offer
		kept   bool
	}{
		"listed":                     {5, []slot.Offer{{Peer: "other"}, {Peer: "self", Root: root}}, false},
		"another peer's equal bytes": {5, []slot.Offer{{Peer: "other", Root: root}}, true},
		"this peer's other bytes":    {5, []slot.Offer{{Peer: "self"}}, true},
		"too stale":                  {6, nil, false},
	} {
		own := &contributions{self: "self", maxStaleness: 1}
		own.mu.open = map[slot.Root]Contribution{root: {Base: 4}}
		own.settle(slot.Record{Slot: c.slot, Contributions: c.listed})
		if _, kept := own.mu.open[root]; kept != c.kept {
			t.Errorf("%s: kept %v", name, kept)
		}
	}
}

// An auditor may ask for a contribution that this peer has settled already, because the record
// overtook the audit. It is shown until its buffer is used again, and then not any more; while it
// is shown the buffer is not used. A contributor that answered nothing was left out as one that
// hides.
func TestASettledContributionIsStillShown(t *testing.T) {
	c := debtor(codec.F32, 1, 0)
	own, err := c.encode(0, 0, make(allreduce.Vector, c.params.Fragments[0]))
	if err != nil {
		t.Fatal(err)
	}
	root := own.Encoded.Root()
	show := (&Replica{contributions: c}).shown().Own
	c.hold(own)
	c.settle(slot.Record{Slot: 1, Contributions: []slot.Offer{{Peer: "self", Root: root}}})
	shown, done := show(root)
	if shown != own.Encoded {
		t.Fatal("it is not shown any more")
	}
	if next, err := c.encode(1, 0, make(allreduce.Vector, c.params.Fragments[0])); err != nil ||
		&next.Encoded.Bytes()[0] == &shown.Bytes()[0] || c.buffer() != nil {
		t.Errorf("its buffer is used while it is shown: %v", err)
	}
	if again, _ := c.find([]slot.Offer{{Peer: "self", Root: root}}); again != nil {
		t.Error("it may be reduced once more")
	}
	done()
	if c.buffer() == nil {
		t.Error("its buffer is not used again")
	}
	if again, _ := show(root); again != nil {
		t.Error("it is shown though its buffer is used again")
	}
}

// The next contribution takes the buffer of the last one. Where that is still being sent there is a
// second one, and only as long.
func TestBuffersOfContributions(t *testing.T) {
	c := debtor(codec.F32, 1, 0)
	made := map[*byte]int{} // buffers, numbered as they come
	next := func(at uint64) (own *allreduce.Contribution, buffer int) {
		x := make(allreduce.Vector, c.params.Fragments[0])
		x[0] = float32(at)
		mine, err := c.encode(at, 0, x)
		if err != nil {
			t.Fatal(err)
		}
		c.hold(mine)
		c.settle(slot.Record{Slot: at + 1, Contributions: []slot.Offer{{Peer: "self", Root: mine.Encoded.Root()}}})
		first := &mine.Encoded.Bytes()[0]
		if _, known := made[first]; !known {
			made[first] = len(made)
		}
		return mine.Encoded, made[first]
	}
	var slow []*allreduce.Contribution // still being sent
	for at, step := range []struct {
		sends  bool // longer than to the next contribution
		buffer int
		spare  int
	}{
		{false, 0, 1}, {true, 0, 1}, {true, 1, 2}, {true, 0, 2}, {false, 1, 2}, {false, 0, 1}, {false, 0, 1},
	} {
		own, buffer := next(uint64(at))
		for _, ended := range slow { // the next reduction has begun
			ended.Drop()
		}
		slow = nil
		if step.sends {
			own.Hold()
			slow = append(slow, own)
		}
		if buffer != step.buffer || len(c.mu.spare) != step.spare {
			t.Errorf("contribution %d: buffer %d and %d kept, want %d and %d", at, buffer, len(c.mu.spare), step.buffer,
				step.spare)
		}
	}
}
