package hostile

import (
	"bytes"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// signsAll signs with a peer's name.
type signsAll slot.PeerID

func (s signsAll) ID() slot.PeerID               { return slot.PeerID(s) }
func (s signsAll) Sign(b []byte) ([]byte, error) { return append([]byte(s), b...), nil }

// TestALoneForkLacksSigners: the fork of heavy-fork breaks no rule but the one that it is to try,
// so the others refuse it for that reason alone.
func TestALoneForkLacksSigners(t *testing.T) {
	rules := chain.Rules{
		Run: slot.Hash([]byte("run")), MinPeers: 1, StartPeers: 4, Byzantine: true, MaxWeightRatio: 8,
		Fragments: []uint64{100}, LastSlot: 40,
	}
	verify := func(p slot.PeerID, signed, sig []byte) bool { return bytes.Equal(sig, append([]byte(p), signed...)) }
	four := []slot.Member{{Peer: "a"}, {Peer: "b"}, {Peer: "c"}, {Peer: "d"}}
	for electors, refused := range map[int]string{1: "", 4: "a fork by 1 of 4 electors"} {
		b := chain.New(rules, slot.Root{})
		founded := b.SettleFork(slot.Record{Run: rules.Run, Height: 1}, chain.Turnover{Listed: four[4-electors:]})
		b.Push(wire.Commit{Record: founded})
		l := &liar{self: "d", run: rules.Run, rules: rules, signer: signsAll("d")}
		l.forkAlone(b, 0, slot.Root{1})
		err := b.UpTo(1).Extend(b.Commit(2), verify)
		if (err == nil) != (refused == "") || err != nil && !strings.Contains(err.Error(), refused) {
			t.Errorf("the fork of one of %d electors: %v", electors, err)
		}
	}
}
