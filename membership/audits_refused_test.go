package membership

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A peer whose accusations prove nothing is not listened to after three, and moves nobody. Large
// evidence is asked for once, of whoever announces it.
func TestAccusationsThatProveNothing(t *testing.T) {
	l := auditedLab(t, "ABCD")
	l.manual = true
	a, b, c, d := l.peers[0], l.peers[1], l.peers[2], l.peers[3]
	said := labSigned(c, wire.Segment{Ref: a.m.chain.Next(), Segment: slot.Segment{Root: slot.Root{1}}})
	evidence := func(proof []byte) wire.Evidence {
		return wire.Evidence{
			Kind: wire.KindFalseOutcome, Peer: c.id, Incarnation: c.inc,
			First:  wire.SignedBody{Body: said.Body.Append(nil), Sig: said.Sig},
			Second: wire.SignedBody{Body: proof},
		}
	}
	l.audits.padding = ungossiped
	good := evidence(l.audits.proof(slot.Root{1}))
	asks := func() (n int) {
		for _, m := range l.held {
			_, ask := m.msg.Body.(wire.Ask)
			n += btoi(ask && m.msg.From == a.id)
		}
		return n
	}
	accuse := wire.Accuse{Peer: c.id, Incarnation: c.inc, Hash: good.Hash()}
	for range 2 {
		if err := a.step(labSigned(d, accuse)); err != nil || asks() != 1 {
			t.Errorf("an accusation: %v, asked %d times", err, asks())
		}
	}
	if len(a.m.evidence.evictions) > 0 {
		t.Error("an accusation alone evicts")
	}
	if err := a.step(labSigned(d, wire.Ask{Hash: good.Hash()})); !errors.Is(err, ErrStale) {
		t.Errorf("a question for unknown evidence: %v", err)
	}
	for i := range 5 {
		err := a.step(labSigned(b, evidence([]byte{byte(i)})))
		if want := []error{chain.ErrInvalid, ErrSender}[btoi(i >= mostFalse)]; !errors.Is(err, want) {
			t.Errorf("evidence %d that proves nothing: %v", i, err)
		}
	}
	accuse.Hash[0]++
	if err := a.step(labSigned(b, accuse)); !errors.Is(err, ErrSender) || asks() != 1 {
		t.Errorf("an accusation by a peer that proves nothing: %v, asked %d times", err, asks())
	}
	l.audits.lies[slot.Root{1}] = true
	if err := a.step(labSigned(b, good)); !errors.Is(err, ErrSender) || len(a.m.evidence.evictions) > 0 {
		t.Errorf("evidence of a peer that proved nothing: %v", err)
	}
	if err := a.step(labSigned(d, good)); err != nil || !a.m.evidence.evicted(memberKey{c.id, c.inc}) {
		t.Errorf("true evidence of another peer: %v", err)
	}
	l.held = nil
	if err := a.step(labSigned(b, wire.Ask{Hash: good.Hash()})); err != nil || len(l.held) != 1 || l.held[0].to != b {
		t.Errorf("a question for known evidence: %v, %d answers", err, len(l.held))
	}
}

// A draft shows what the owner of each segment has signed, in its ballot, of the record's inputs.
// What else it shows is refused, also where it repeats a draft.
func TestADraftThatOwnersHaveNotSigned(t *testing.T) {
	l := auditedLab(t, "ABCD")
	for _, p := range l.peers {
		p.auditor.delay = 50 * time.Millisecond
	}
	leader := l.leading(t, func(_ *labPeer, lead *leading) bool {
		return lead.ref.Ballot == 0 && lead.draft != nil && lead.draft.Record.Kind == slot.Step
	})
	draft, to := *leader.m.open.lead.draft, l.aside(leader, 1)
	for _, repeated := range []bool{false, true} {
		if repeated {
			if err := to.step(labSigned(leader, draft)); err != nil {
				t.Fatal(err)
			}
		}
		for name, c := range map[string]struct {
			want   string
			change func(o *wire.Owners)
		}{
			"none":             {"0 SEGMENTs are attached", func(o *wire.Owners) { o.Stated = nil }},
			"one too few":      {"3 SEGMENTs are attached", func(o *wire.Owners) { o.Stated = o.Stated[1:] }},
			"of another group": {"did not sign", func(o *wire.Owners) { o.Group[0]++ }},
			"of other inputs":  {"did not sign", func(o *wire.Owners) { o.Stated[0].Contributors = slot.Bitmap{1} }},
			"of another owner": {"did not sign", func(o *wire.Owners) { o.Stated[0].Peer = o.Stated[1].Peer }},
			"of another ballot": {"did not sign", func(o *wire.Owners) {
				*o = ownersSigned(l, draft, draft.Ballot+1, "")
			}},
			"of a stranger": {"is no member", func(o *wire.Owners) {
				*o = ownersSigned(l, draft, draft.Ballot, "Z")
			}},
		} {
			d := draft
			d.Owners.Stated = slices.Clone(d.Owners.Stated)
			c.change(&d.Owners)
			err := to.step(labSigned(leader, d))
			if !errors.Is(err, chain.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s (repeated: %v): %v", name, repeated, err)
			}
		}
	}
	l.goesOn(t, 1)
}

// ownersSigned are the SEGMENTs of a draft as its owners, or a stranger, would sign them in a
// ballot.
func ownersSigned(l *lab, d wire.Draft, ballot uint32, stranger string) wire.Owners {
	o, at := d.Owners, d.Ref
	at.Ballot, o.Stated = ballot, slices.Clone(o.Stated)
	for i := range o.Stated {
		s := &o.Stated[i]
		if stranger != "" {
			s.Peer = labID(stranger)
		}
		body := o.Segment(i, at, d.Record).Append(nil)
		s.Sig = labSign(s.Peer, slot.SignedBytes(slot.TypeSegment, l.rules.Run, s.Peer, s.Incarnation, body))
	}
	return o
}
