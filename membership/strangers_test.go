package membership

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A flood of strangers does not push out a peer that contributed before and wants to come back.
func TestWhoContributedKeepsAPlaceAmongStrangers(t *testing.T) {
	l := ofThree(t, 2)
	l.peer("C").crash()
	m := l.peer("A").m
	l.within(t, 10*labTiming.Lost, "C is dropped", func() bool {
		return slot.Find(m.chain.Electorate(), labID("C")) < 0
	})
	back := memberKey{labID("C"), 77}
	say := func(w memberKey) {
		m.presence.heard(wire.Message{From: w.peer, Incarnation: w.inc, Body: wire.Join{}})
		_ = m.roster.onJoin(wire.Message{From: w.peer, Incarnation: w.inc, Body: wire.Join{}}, wire.Join{})
	}
	say(back)
	for i := range 4 * maxStrangers {
		m.now++
		say(memberKey{labID(fmt.Sprintf("stranger%d", i)), 1})
	}
	if m.presence.known[back] == nil {
		t.Fatal("forgotten for strangers")
	}
	if first := m.roster.newcomers()[0]; first.memberKey != back {
		t.Errorf("%s is listed first", first.peer)
	}
	if n := len(m.presence.known); n > maxStrangers+3 {
		t.Errorf("%d peers are remembered", n)
	}
}

// A plan lists as many offers as a run has members, each with a signature. What a stranger sends of
// that kind costs no more than the check of its own signature.
func TestAStrangersPlanIsCheap(t *testing.T) {
	member, stranger, run := newTestSigner(1), newTestSigner(2), testRoot(1)
	var contributors []testSigner
	for i := range byte(100) {
		contributors = append(contributors, newTestSigner(3+i))
	}
	slices.SortFunc(contributors, func(a, b testSigner) int { return cmp.Compare(a.ID(), b.ID()) })
	checks := 0
	v := &verifier{
		runID: run, self: "self", inputs: newInputs(), answers: newAnswers(),
		blame: newBlame(slog.New(slog.DiscardHandler)),
		views: newViews(View{Tip: slot.Record{Members: []slot.Member{{Peer: member.ID(), Seat: 1}}}}),
		verify: func(p slot.PeerID, data, sig []byte) bool {
			checks++
			return testVerify(p, data, sig)
		},
	}
	for _, s := range []testSigner{member, stranger} {
		var plan wire.Plan
		for _, by := range contributors {
			o := slot.Offer{Peer: by.ID(), Seq: 1}
			m, _, err := wire.SealMessage(by, run, 1, wire.Offer{Offer: o})
			if err != nil {
				t.Fatal(err)
			}
			plan.Offers, plan.Proofs = append(
				plan.Offers,
				o,
			), append(
				plan.Proofs,
				wire.OfferProof{Incarnation: 1, Sig: m.Sig},
			)
		}
		checks = 0
		v.check(s.ID(), mustSeal(t, s, run, 1, plan))
		_, taken := v.inputs.drain()
		if good := s.ID() == member.ID(); good != (len(taken) == 1) || !good && checks > 1 {
			t.Errorf("member %v: %d messages are taken after %d checks", good, len(taken), checks)
		}
	}
}
