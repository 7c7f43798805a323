package membership

import (
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// TestBadInputIsRefusedByName: what a peer that lies can put together is refused, and the reason
// says what is wrong with it.
func TestBadInputIsRefusedByName(t *testing.T) {
	l := forkingLab(t, 4, 0)
	m := l.peers[0].m
	c, tip := m.chain, m.chain.Tip()
	good := c.Settle(slot.Record{
		Run: tip.Run, Height: tip.Height + 1, Kind: slot.Members, Prev: c.TipHash(), Slot: tip.Slot,
		StateRoot: m.model.state.root, Work: tip.Work,
	}, chain.Turnover{Listed: tip.Members})
	if err := c.Check(good, 0); err != nil {
		t.Fatal(err)
	}
	record := func(change func(*slot.Record)) error {
		r := good
		r.Members = slices.Clone(r.Members)
		change(&r)
		return c.Check(r, 0)
	}
	certificate := func(change func([]slot.Signature) []slot.Signature) error {
		commit, ok := m.Record(c.LastStep())
		if !ok {
			t.Fatal("no step")
		}
		commit.Certificate.Signatures = change(slices.Clone(commit.Certificate.Signatures))
		return c.UpTo(commit.Record.Height-1).Extend(commit, labVerify)
	}
	grounds := func(height uint64, names int) error {
		at := slot.Ref{Height: height, Prev: good.Prev, Ballot: slot.Tries}
		d := draftOf(slot.Tries, good, nil)
		for _, p := range l.peers[:names] {
			d.Grounds.Promises = append(d.Grounds.Promises,
				wire.Promised{Peer: p.id, Incarnation: p.inc, Sig: labSigned(p, wire.Promise{Ref: at}).Sig})
		}
		if err := wire.CheckProofs(d, tip.Run, labVerify); err != nil {
			return err
		}
		return c.CheckGrounds(d.Grounds, slot.Tries, good)
	}
	for name, bad := range map[string]struct {
		err  error
		says string
	}{
		"members out of order": {
			record(func(r *slot.Record) { slices.Reverse(r.Members) }), "members are not sorted",
		},
		"a member twice": {
			record(func(r *slot.Record) { r.Members = slices.Insert(r.Members, 1, r.Members[0]) }),
			"members are not sorted",
		},
		"an elector loses its seat": {
			record(func(r *slot.Record) { r.Members[1].Seat = 0 }), "its seat since 0, not a member since",
		},
		"an elector with another since": {
			record(func(r *slot.Record) { r.Members[1].Since++ }), "is listed as a member since",
		},
		"credit that was not earned": {
			record(func(r *slot.Record) { r.Members[1].Credit += 8 }), "is listed as a member since",
		},
		"a seat for a stranger": {
			record(func(r *slot.Record) {
				r.Members = append(r.Members, slot.Member{
					Peer: slot.PeerID(strings.Repeat("z", 34)), Incarnation: 1, Since: r.Height, Seat: r.Height,
				})
			}), "which it cannot have now",
		},
		"a signer that is counted twice": {
			certificate(func(s []slot.Signature) []slot.Signature { return []slot.Signature{s[0], s[0], s[0]} }),
			"1 of 4 voters signed",
		},
		"a signer that is no elector": {
			certificate(func(s []slot.Signature) []slot.Signature {
				s[0].Peer = labID("Z")
				return s
			}), "is not one of its 4 voters",
		},
		"a justification for another height": {grounds(good.Height+1, 4), "did not sign"},
		"a justification by too few": {
			grounds(good.Height, 2), "2 promises, which are no quorum of 4 electors",
		},
	} {
		if bad.err == nil || !strings.Contains(bad.err.Error(), bad.says) {
			t.Errorf("%s: %v", name, bad.err)
		}
	}
	if err := grounds(good.Height, 3); err != nil {
		t.Errorf("promises of a quorum: %v", err)
	}
	commit, _ := m.Record(c.LastStep())
	commit.Certificate.Signatures = slices.Insert(commit.Certificate.Signatures, 1, commit.Certificate.Signatures[0])
	r := canonical.NewReader(commit.Certificate.Append(nil))
	if slot.ReadCertificate(r); r.Err() == nil || !strings.Contains(r.Err().Error(), "order of their peers") {
		t.Errorf("a repeated signer is read: %v", r.Err())
	}
}
