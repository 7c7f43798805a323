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

// Who is admitted, under which secret and with which ticket. Peers with names that begin with n
// never were members, with r were removed, and with m are members. A ticket is good for as long as
// the secret that it was made with is in force, and who is refused uses up nothing.
func TestWhoIsAdmitted(t *testing.T) {
	holds := func(self slot.PeerID, inForce ...byte) *Party { return peer(t, self, line(inForce...)) }
	unsure := func(d *Party) *Party { d.AccessOf = nil; return d }
	with := func(d *Party, change func(d *Party)) *Party { change(d); return d }
	old := []Secret{{2}, {1, 2, 3}}
	early := func() *Party {
		return with(peer(t, "m2", old[:1]), func(d *Party) { d.Ring, _ = d.Ring.With(old[1]) })
	}
	ticket := func(self slot.PeerID) *Party { return newcomer(self, 1, now+60) }
	const (
		never, removed = "never was a member", "was removed"
		unproven       = "without a ticket"
		changed, again = "has been changed since this ticket was made", "ask again"
	)
	for what, c := range map[string]struct {
		asker, answerer *Party
		try             int    // the k-th secret of the asker
		refusal         string // to the asker; empty: admitted
		here            string // why the asker does not admit the answerer; empty: it does
	}{
		"members":                     {holds("m1", 2, 1), holds("m2", 2, 1), 0, "", ""},
		"a newcomer":                  {holds("n1", 2), holds("m2", 2, 1), 0, "", ""},
		"a member that slept":         {holds("m1", 1), holds("m2", 2, 1), 0, "", ""},
		"a member that slept long":    {holds("m1", 1), holds("m2", 3, 2, 1), 0, "", ""},
		"one that never was a member": {holds("n1", 1), holds("m2", 2, 1), 0, never, ""},
		"one that was removed":        {holds("r1", 1), holds("m2", 2, 1), 0, removed, ""},
		"removed, with the secret":    {holds("r1", 2), holds("m2", 2, 1), 0, removed, ""},
		"records are not known":       {holds("m1", 1), unsure(holds("m2", 2, 1)), 0, again, ""},
		"then with the secret":        {holds("m1", 2), unsure(holds("m2", 2, 1)), 0, "", ""},
		"a member that is ahead":      {holds("m1", 2, 1), peer(t, "m2", line(1), 2), 0, "", ""},
		"a newcomer that is ahead":    {holds("n1", 2), peer(t, "m2", line(1), 2), 0, again, ""},
		"one that was not heard":      {holds("m1", 2, 1), holds("m2", 1), 0, unproven, ""},
		"an older one, then":          {holds("m1", 2, 1), holds("m2", 1), 1, "", ""},
		"round about":                 {holds("m1", 2, 1), holds("m2", 2), 2, "", ""},
		"by one that was removed":     {holds("m1", 2, 1), holds("r1", 1), 1, "", removed},
		"by one that never was":       {holds("m1", 2, 1), holds("n1", 1), 1, "", never},
		"an older one, not known":     {unsure(holds("m1", 2, 1)), holds("m2", 1), 1, "", again},

		"another secret": {holds("x", 2), member("b"), 0, unproven, ""},
		"another run":    {with(member("x"), func(d *Party) { d.Run = "films" }), member("b"), 0, unproven, ""},
		"more uses than were given": {
			with(ticket("x"), func(d *Party) { d.Token.Uses = 100 }), member("b"), 0, unproven, "",
		},
		"a later expiry": {
			with(newcomer("x", 1, now-1000), func(d *Party) { d.Until = now + 60 }), member("b"), 0, unproven, "",
		},
		"an expired token": {newcomer("x", 1, now-tolerance-1), member("b"), 0, "expired", ""},
		"by no member yet": {ticket("x"), ticket("y"), 0, "not admitted itself", ""},

		"an old ticket":              {ticket("n1"), peer(t, "m2", old), 0, changed, ""},
		"a member's old ticket":      {ticket("m1"), peer(t, "m2", old), 0, changed, ""},
		"a ticket to a removed one":  {ticket("r1"), peer(t, "m2", old[1:]), 0, removed, ""},
		"a secret to come":           {ticket("n1"), early(), 0, again, ""},
		"or that a member has":       {ticket("m1"), early(), 0, again, ""},
		"an old one, records hidden": {ticket("n1"), unsure(peer(t, "m2", old)), 0, changed, ""},
		"a new ticket":               {ticket("n1"), peer(t, "m2", []Secret{{1, 2, 3}, {2}}), 0, "", ""},
	} {
		asked := c.asker.Ask(c.answerer.Self, c.try)
		answer := c.answerer.Answer(now, c.asker.Self, asked)
		err := c.asker.Judge(now, c.answerer.Self, asked, answer)
		var r *RefusedError
		proven := c.refusal != "" && c.refusal != unproven && what != "by no member yet"
		ok := errors.As(err, &r) && strings.Contains(r.Reason, c.refusal+c.here) && r.Proven == proven
		if ok = ok || c.refusal+c.here == "" && err == nil; !ok || (answer.Refusal == "") != (c.refusal == "") {
			t.Errorf("%s: %+v, %v", what, answer, err)
		}
		if err != nil && c.asker.Token != nil && (!c.asker.Ring.IsZero() || len(c.answerer.Used.tokens) > 0) {
			t.Errorf("%s: the ticket counts as used", what)
		}
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
