package hostile

import (
	"bytes"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// signsAll signs with a peer's name.
type signsAll slot.PeerID

func (s signsAll) ID() slot.PeerID               { return slot.PeerID(s) }
func (s signsAll) Sign(b []byte) ([]byte, error) { return append([]byte(s), b...), nil }

// TestALoneForkLacksSigners: the branch of heavy-fork breaks no rule but the one that it is to try,
// so the others refuse it for that reason alone.
func TestALoneForkLacksSigners(t *testing.T) {
	rules := chain.Rules{
		Run: slot.Hash([]byte("run")), MinPeers: 1, StartPeers: 4, Byzantine: true, MaxWeightRatio: 8,
		Fragments: []uint64{100}, LastSlot: 40,
	}
	b := chain.New(rules, slot.Root{})
	l := &liar{self: "c", run: rules.Run, rules: rules, signer: signsAll("c")}
	f := &solitary{liar: l}
	four := []slot.Member{{Peer: "a"}, {Peer: "b"}, {Peer: "c"}, {Peer: "d"}}
	f.append(b, 0, b.SettleFork(slot.Record{}, chain.Turnover{Listed: four}), slot.Root{})
	tip := b.Height()
	f.grow(b, 0, slot.Root{1})
	if b.Height() != tip+1+branchSlots {
		t.Fatalf("a branch of %d records", b.Height()-tip)
	}
	verify := func(p slot.PeerID, signed, sig []byte) bool { return bytes.Equal(sig, append([]byte(p), signed...)) }
	for h := tip + 1; h <= b.Height(); h++ {
		err := b.UpTo(h-1).Extend(b.Commit(h), verify)
		if h > tip+1 && err != nil {
			t.Errorf("record %d: %v", h, err)
		}
		if h == tip+1 && (err == nil || !strings.Contains(err.Error(), "a fork by 1 of 4 electors")) {
			t.Errorf("the fork: %v", err)
		}
	}
}
