package proof

import (
	"errors"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// access is that of the peers named: the first letter tells.
func access(p slot.PeerID) Access {
	return Access{Ever: p[0] != 'n', Removed: p[0] == 'r', Why: "it was removed from the run"}
}

// peer holds secrets, the one in force first; those after the bar never were.
func peer(t *testing.T, self slot.PeerID, inForce []Secret, next ...byte) *Party {
	t.Helper()
	d := &Party{
		Run: "books", Self: self, Ring: held(t, NewRing(inForce...), next...), Used: NewRegister(),
		AccessOf: access,
	}
	return d
}

// tries asks until it is the turn of the k-th secret.
func tries(t *testing.T, asker, answerer *Party, k int) (admitted bool, err error) {
	t.Helper()
	asked := asker.Ask(answerer.Self, k)
	answer := answerer.Answer(now, asker.Self, asked)
	return answer.Refusal == "", asker.Judge(now, answerer.Self, asked, answer)
}

// Peers with names that begin with n never were members, with r were removed, and with m are
// members.
func TestWhoIsAdmittedUnderWhichSecret(t *testing.T) {
	unsure := func(d *Party) *Party { d.AccessOf = nil; return d }
	for what, c := range map[string]struct {
		asker, answerer *Party
		try             int
		refusal         string // to the asker; empty: admitted
		proven          bool
		here            string // why the asker does not admit the answerer; empty: it does
	}{
		"members":                  {asker: peer(t, "m1", line(2, 1)), answerer: peer(t, "m2", line(2, 1))},
		"a newcomer":               {asker: peer(t, "n1", line(2)), answerer: peer(t, "m2", line(2, 1))},
		"a member that slept":      {asker: peer(t, "m1", line(1)), answerer: peer(t, "m2", line(2, 1))},
		"a member that slept long": {asker: peer(t, "m1", line(1)), answerer: peer(t, "m2", line(3, 2, 1))},
		"one that never was a member": {
			asker: peer(t, "n1", line(1)), answerer: peer(t, "m2", line(2, 1)),
			refusal: "never was a member", proven: true,
		},
		"one that was removed": {
			asker: peer(t, "r1", line(1)), answerer: peer(t, "m2", line(2, 1)),
			refusal: "was removed from the run", proven: true,
		},
		"removed, with the secret in force": {
			asker: peer(t, "r1", line(2)), answerer: peer(t, "m2", line(2, 1)),
			refusal: "was removed from the run", proven: true,
		},
		"before the records are known": {
			asker:    peer(t, "m1", line(1)),
			answerer: unsure(peer(t, "m2", line(2, 1))), refusal: "ask again", proven: true,
		},
		"then with the secret in force": {
			asker:    peer(t, "m1", line(2)),
			answerer: unsure(peer(t, "m2", line(2, 1))),
		},
		"a member that is ahead": {asker: peer(t, "m1", line(2, 1)), answerer: peer(t, "m2", line(1), 2)},
		"a newcomer that is ahead": {
			asker: peer(t, "n1", line(2)), answerer: peer(t, "m2", line(1), 2),
			refusal: "ask again", proven: true,
		},
		"one that the other has not heard": {
			asker: peer(t, "m1", line(2, 1)), answerer: peer(t, "m2", line(1)),
			refusal: "without a ticket",
		},
		"an older one, then": {
			asker: peer(t, "m1", line(2, 1)), answerer: peer(t, "m2", line(1)),
			try: 1,
		},
		"round about": {
			asker: peer(t, "m1", line(2, 1)), answerer: peer(t, "m2", line(2)),
			try: 2,
		},
		"by one that was removed": {
			asker: peer(t, "m1", line(2, 1)), answerer: peer(t, "r1", line(1)),
			try: 1, here: "was removed",
		},
		"by one that never was a member": {
			asker: peer(t, "m1", line(2, 1)), answerer: peer(t, "n1", line(1)),
			try: 1, here: "never was a member",
		},
		"an older one, the records unknown": {
			asker:    unsure(peer(t, "m1", line(2, 1))),
			answerer: peer(t, "m2", line(1)), try: 1, here: "ask again",
		},
	} {
		admitted, err := tries(t, c.asker, c.answerer, c.try)
		var r *RefusedError
		switch {
		case c.refusal == "" && c.here == "":
			if !admitted || err != nil {
				t.Errorf("%s: admitted %v, %v", what, admitted, err)
			}
		case admitted != (c.refusal == "") || !errors.As(err, &r) || !strings.Contains(r.Reason, c.refusal+c.here) ||
			r.Proven != c.proven:
			t.Errorf("%s: admitted %v, %v", what, admitted, err)
		}
	}
}

// A ticket is good for as long as the secret that it was made with is in force.
func TestTicketsAndRotation(t *testing.T) {
	refused := func(what, reason string, answerer *Party, self slot.PeerID) {
		t.Helper()
		x := newcomer(self, 1, now+60)
		admitted, err := meet(t, x, answerer)
		var r *RefusedError
		if admitted || !errors.As(err, &r) || !strings.Contains(r.Reason, reason) || !r.Proven || !x.Ring.IsZero() {
			t.Errorf("%s: admitted %v, %v", what, admitted, err)
		}
		if len(answerer.Used.tokens) > 0 {
			t.Errorf("%s: the ticket counts as used", what)
		}
	}
	old := []Secret{{2}, {1, 2, 3}}
	refused("an old ticket", "has been changed since this ticket was made", peer(t, "m2", old), "n1")
	refused("an old ticket of a member", "has been changed since this ticket was made", peer(t, "m2", old), "m1")
	refused("a ticket to who was removed", "was removed", peer(t, "m2", old[1:]), "r1")
	early := peer(t, "m2", old[:1])
	early.Ring, _ = early.Ring.With(old[1])
	refused("a ticket with a secret to come", "ask again", early, "n1")
	refused("or that a member has", "ask again", early, "m1")
	unsure := peer(t, "m2", old)
	unsure.AccessOf = nil
	refused("an old ticket, before the records are known", "has been changed since", unsure, "n1")
	x := newcomer("n1", 1, now+60)
	if admitted, err := meet(t, x, peer(t, "m2", []Secret{{1, 2, 3}, {2}})); !admitted || err != nil ||
		x.Ring.Current() != (Secret{1, 2, 3}) {
		t.Errorf("a new one: %v", err)
	}
}

// A peer that asked with a secret which it has dropped meanwhile admits nobody, least of all a peer
// that gives no proof.
func TestAnAnswerToASecretThatIsGone(t *testing.T) {
	a, b := peer(t, "m1", line(2, 1)), peer(t, "m2", line(2, 1))
	asked := a.Ask("m2", 0)
	a.Ring = NewRing(line(3)...)
	if err := a.Judge(now, "m2", asked, b.Answer(now, "m1", asked)); err == nil {
		t.Error("an answer to an ask of before was taken")
	}
	var none Answer
	none.Proof = prove([32]byte{}, "m2", "m1", none.body())
	if err := a.Judge(now, "m2", asked, none); err == nil {
		t.Error("no key at all proves something")
	}
}

// What a stranger costs that asks a peer which holds as many secrets as are tried.
func BenchmarkAStranger(b *testing.B) {
	d := &Party{Run: "books", Self: "m", Ring: NewRing(), Used: NewRegister(), AccessOf: access}
	for i := range 1 + triedOlder {
		d.Ring.line = append(d.Ring.line, Secret{1, byte(i)})
	}
	for i := range triedNext {
		d.Ring.next = append(d.Ring.next, Secret{2, byte(i)})
	}
	for b.Loop() {
		if d.Answer(now, "x", Ask{Token: true, Uses: 1}).Refusal == "" {
			b.Fatal("admitted")
		}
	}
}
