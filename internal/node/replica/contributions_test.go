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
	show := (&Replica{contributions: c}).auditConfig().Own
	c.keep(own)
	c.settle(slot.Record{Slot: 1, Contributions: []slot.Offer{{Peer: "self", Root: root}}})
	shown, done := show(root)
	if shown != own.Encoded {
		t.Fatal("it is not shown any more")
	}
	if next, err := c.encode(1, 0, make(allreduce.Vector, c.params.Fragments[0])); err != nil ||
		&next.Encoded.Bytes()[0] == &shown.Bytes()[0] || c.buffer() != nil {
		t.Errorf("its buffer is used while it is shown: %v", err)
	}
	if again, _ := c.of([]slot.Offer{{Peer: "self", Root: root}}); again != nil {
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
