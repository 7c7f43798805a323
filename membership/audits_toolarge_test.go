package membership

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A proof that is larger than others take evicts nobody: a draft that carried it could be read by
// nobody, and each leader that knows it would fail, for as long as it does. Slots are decided,
// without what is false, the owner is named in words, and what is said of it is said once.
func TestAProofThatIsTooLarge(t *testing.T) {
	t.Parallel()
	for name, finders := range map[string]int{"all find it": 6, "one more than may lie finds it": 3} {
		t.Run(name, func(t *testing.T) {
			l := auditedLab(t, "ABCDEFG")
			l.audits.padding = wire.MaxProof
			leader := l.leading(t, func(_ *labPeer, lead *leading) bool {
				return lead.ref.Ballot == 0 && lead.plan == nil
			})
			owner := l.aside(leader, 1)
			owner.auditor.forges = true
			all := finders == len(l.peers)-1
			left := finders - 1
			for _, p := range l.peers {
				if p != leader {
					p.auditor.blind = p == owner || left == 0
					left -= btoi(!p.auditor.blind)
				}
			}
			height := leader.m.open.ref.Height
			l.goesOn(t, testutil.Choose[uint64](4, 4, 12))
			l.onlyEvicted(t)
			for _, k := range leader.m.chain.Commits()[height-1:] {
				if knows := all || k.Record.Height == height; knows && k.Certificate.Term() > 1 {
					t.Errorf("height %d is decided in term %d", k.Record.Height, k.Certificate.Term())
				}
			}
			if l.audits.found == 0 {
				t.Error("no audit has found a lie: the test is about nothing")
			}
			if l.audits.unread > 0 {
				t.Errorf("%d messages could not be read", l.audits.unread)
			}
			words := strings.Count(strings.Join(l.log, "\n"), "others take no more than 600")
			if words == 0 || words >= len(l.peers) {
				t.Errorf("%d times it is said that the proof is too large", words)
			}
			if !strings.Contains(strings.Join(l.log, "\n"), "has no proof that others take") {
				t.Error("nobody says why it refuses the outcome")
			}
			if slot.Find(leader.m.chain.Members(), owner.id) < 0 {
				t.Error("the owner was dropped, and nobody can show why")
			}
		})
	}
}

// Two proofs that a draft has no room for together are shown one after the other.
func TestTwoLargeProofs(t *testing.T) {
	l := auditedLab(t, "ABCDEFG")
	l.audits.padding = wire.MaxProof * 9 / 10
	leader := l.leading(t, func(_ *labPeer, lead *leading) bool {
		return lead.ref.Ballot == 0 && lead.plan == nil
	})
	owners := []*labPeer{l.aside(leader, 1), l.aside(leader, 2)}
	for _, p := range owners {
		p.auditor.forges = true
	}
	stays := func(p *labPeer) bool { return slot.Find(leader.m.chain.Members(), p.id) >= 0 }
	l.awaits(t, "none of them is a member", func() bool { return !slices.ContainsFunc(owners, stays) })
	l.goesOn(t, 2)
	l.onlyEvicted(t, owners...)
	if l.audits.unread > 0 {
		t.Errorf("%d messages could not be read", l.audits.unread)
	}
}

// A lie that was proven stays known for its record although others don't take the proof: the
// samples of a later audit may miss it. And a smaller proof against the same peer evicts it.
func TestAProvenLieStaysKnown(t *testing.T) {
	l := auditedLab(t, "ABCD")
	for _, p := range l.peers {
		p.auditor.delay = time.Minute // what audits find is reported below
	}
	leader := l.leading(t, func(_ *labPeer, lead *leading) bool {
		return lead.ref.Ballot == 0 && lead.draft != nil && lead.draft.Record.Kind == slot.Step
	})
	draft, to := *leader.m.open.lead.draft, l.aside(leader, 1)
	audits := to.m.participant.audits
	audits.look(draft)
	at := slices.IndexFunc(draft.Owners.Stated, func(s wire.SignedSegment) bool { return s.Peer != to.id })
	owner := memberKey{draft.Owners.Stated[at].Peer, draft.Owners.Stated[at].Incarnation}
	root := draft.Record.Segments[at].Root
	l.audits.lies[root] = true
	found := ReportAudited{Ref: draft.Ref, Record: draft.Hash}
	missed := found
	l.audits.padding = wire.MaxProof
	found.False = []FalseSegment{{Segment: at, Proof: l.audits.proof(root)}}
	audits.report(found)
	if audits.look(draft).passed || !audits.evidence.lies(owner) || audits.evidence.evicted(owner) {
		t.Error("the lie is not known, or evicts by a proof that others do not take")
	}
	if audits.report(missed); audits.look(draft).passed || audits.objection(draft) == "" {
		t.Error("an audit that missed the lie has the outcome pass")
	}
	l.audits.padding = 0
	found.False[0].Proof = l.audits.proof(root)
	if audits.report(found); !audits.evidence.evicted(owner) {
		t.Error("a small proof does not evict")
	}
}
