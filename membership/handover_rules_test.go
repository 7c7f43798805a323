package membership

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// electorOf is an elector of a lab that does not lead, with no plan at its open height.
func electorOf(l *lab) (*labPeer, *Machine) {
	for _, p := range l.peers {
		m := p.m
		if m.elector() && m.open.leader(m.open.ballot).Peer != p.id {
			m.open.plan, m.open.last, m.open.draft = nil, nil, nil
			m.handover.term = termOffers{}
			return p, m
		}
	}
	return nil, nil
}

// idleLab is a working run of four electors, E and F, in which nobody offers any more.
func idleLab(t *testing.T) *lab {
	t.Helper()
	l := workingLab(t, "ABCDEF")
	train(false, l.peers...)
	l.rests(10 * time.Second)
	return l
}

// planOf is a plan of a group in the followed ballot, with equal pieces of owners.
func planOf(m *Machine, names string, owners ...string) slot.Plan {
	ref := m.open.at(m.open.ballot)
	p := slot.Plan{
		Ref: ref, Opened: slot.Opening{Ref: ref, Revision: 1}, Revision: 1, Slot: m.chain.OpenSlot(),
		Offers: stepRecord(m, names).Contributions,
	}
	elements, n := m.chain.Rules().Elements(p.Slot), uint64(len(owners))
	for i, o := range owners {
		r := slot.Range{Begin: uint64(i) * elements / n, End: uint64(i+1) * elements / n}
		p.Pieces = append(p.Pieces, slot.Piece{Range: r, Owner: labID(o)})
	}
	return p
}

// TestWhomAPlanPassesOver: rule S1 asks for living members whose offers this very leader was given
// a moment before its list came, and for newcomers within their share.
func TestWhomAPlanPassesOver(t *testing.T) {
	l := workingLab(t, "ABCDEF") // E and F have no vote
	_, m := electorOf(l)
	slack := labTiming.slack(0)
	old := 10 * slack
	for name, c := range map[string]struct {
		given   string // for long
		just    string // given as long ago as the slack of term 0
		credit  string // of E and F, who are newcomers with less than 32
		listed  string // by an earlier plan of this leader
		silent  string
		names   string
		term    int
		other   bool // they were given to the leader of the term before
		earlier bool // the list was seen before they were given
		want    string
	}{
		"all of all":                      {given: "ABCDEF", names: "ABCDEF"},
		"one is passed over":              {given: "ABCDEF", names: "ABCDF", want: "E"},
		"an elector is, too":              {given: "ABCDEF", names: "ABDF", want: "CE"},
		"nobody gave it":                  {given: "ABCD", names: "ABCD"},
		"it was given just now":           {given: "ABCD", just: "E", names: "ABCD"},
		"it was given later":              {given: "ABCDE", names: "ABCD", earlier: true},
		"the leader of the term before":   {given: "ABCDE", names: "ABCD", other: true},
		"it is not heard":                 {given: "ABCDE", silent: "E", names: "ABCD"},
		"it was in an earlier plan":       {given: "ABCDE", listed: "E", names: "ABCD"},
		"a term leaves more time":         {given: "ABCDE", names: "ABCD", term: 3, want: "E"},
		"several terms leave enough":      {given: "ABCDE", names: "ABCD", term: 4},
		"a newcomer":                      {given: "ABCDE", credit: "00", names: "ABCD", want: "E"},
		"one newcomer is the share":       {given: "ABCDEF", credit: "00", names: "ABCDE"},
		"of two that with credit":         {given: "ABCDEF", credit: "01", names: "ABCD", want: "F"},
		"that without instead":            {given: "ABCDEF", credit: "01", names: "ABCDE", want: "F"},
		"one that failed keeps its place": {given: "ABCDEF", credit: "00", listed: "E", names: "ABCD"},
		"also where it comes second":      {given: "ABCDEF", credit: "10", listed: "F", names: "ABCD"},
		"one that failed takes no other":  {given: "ABCDEF", credit: "00", listed: "E", names: "ABDF", want: "C"},
		"the one that the share reaches":  {given: "ABCDEF", credit: "01", names: "ABCDF"},
	} {
		t.Run(name, func(t *testing.T) {
			ho := m.handover
			m.now += time.Minute
			for w, a := range m.presence.known {
				if a.heard = m.now; strings.Contains(c.silent, labName(w.peer)) && c.silent != "" {
					a.heard = m.now - time.Minute
				}
			}
			for i, name := range []string{"E", "F"} {
				e := &m.chain.Members()[slot.Find(m.chain.Members(), labID(name))]
				if e.Credit = 40; c.credit != "" {
					e.Credit = uint16(c.credit[i] - '0')
				}
			}
			ho.term, ho.list = termOffers{}, passedOver{}
			plan := planOf(m, c.names)
			if c.earlier {
				ho.saw(plan)
			}
			ho.turn()
			for _, n := range c.given {
				ho.term.given[labID(string(n))] = m.now - old
			}
			for _, n := range c.just {
				ho.term.given[labID(string(n))] = m.now - slack
			}
			for _, n := range c.listed {
				ho.term.listed[labID(string(n))] = struct{}{}
			}
			if c.other {
				m.open.ballot += slot.Tries
				defer func() { m.open.ballot -= slot.Tries }()
			}
			ho.saw(plan)
			got := labNames(ho.notGiven(plan, c.term))
			if got != c.want {
				t.Errorf("it is without %q, want %q", got, c.want)
			}
			o := m.objections.passesOver(plan, c.term)
			if (o.why != "") != (c.want != "") || o.why != "" && o.rule != wire.RuleOffers {
				t.Errorf("objection %+v", o)
			}
		})
	}
}

// TestOwnersHaveEarnedIt: rule S3 gives parts to electors and to members with credit, unless nobody
// of the group is one of these.
func TestOwnersHaveEarnedIt(t *testing.T) {
	l := workingLab(t, "ABCDEF")
	_, m := electorOf(l)
	credit := func(name string, credit uint16) {
		m.chain.Members()[slot.Find(m.chain.Members(), labID(name))].Credit = credit
	}
	credit("E", 1)
	credit("F", 0)
	credit("A", 0) // it has a vote
	for name, c := range map[string]struct {
		plan slot.Plan
		want string
	}{
		"electors":             {planOf(m, "ABCDEF", "A", "B", "C", "D"), ""},
		"credit":               {planOf(m, "ABCDEF", "A", "B", "C", "E"), ""},
		"neither":              {planOf(m, "ABCDEF", "A", "B", "C", "F"), "neither a vote nor credit"},
		"where nobody may":     {planOf(m, "F", "F"), ""},
		"where a lost one may": {withGone(planOf(m, "AF", "F"), []slot.PeerID{labID("A")}), ""},
	} {
		if o := m.objections.favours(c.plan, 3); (o.why == "") != (c.want == "") || !strings.Contains(o.why, c.want) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

// What is no NOTYET of an elector to this leader changes nothing, and offers are taken from it as
// from their contributors.
func TestNotYetIsChecked(t *testing.T) {
	l := idleLab(t)
	elector, m := electorOf(l)
	d := m.open
	leader := l.peer(labName(d.leader(d.ballot).Peer))
	if leader.m.open.lead == nil || len(leader.m.planner.offers()) > 0 {
		t.Fatal(l.show())
	}
	offers := stepRecord(m, "EF").Contributions
	good := wire.NotYet{
		Ref: d.at(d.ballot), Rule: wire.RuleOffers, Whom: slot.Bitmap{0b110000}, Offers: offers,
		Proofs: l.proofs(offers),
	}
	for name, c := range map[string]struct {
		from   *labPeer
		change func(*wire.NotYet)
		want   error
	}{
		"no elector":     {l.peer("E"), func(*wire.NotYet) {}, ErrSender},
		"another term":   {elector, func(b *wire.NotYet) { b.Ballot += slot.Tries }, ErrStale},
		"another height": {elector, func(b *wire.NotYet) { b.Height-- }, ErrStale},
		"too many":       {elector, func(b *wire.NotYet) { b.Whom = slot.Bitmap{0, 1} }, chain.ErrInvalid},
		"a false offer": {
			elector, func(b *wire.NotYet) { b.Proofs[0], b.Proofs[1] = b.Proofs[1], b.Proofs[0] }, wire.ErrSignature,
		},
	} {
		b := good
		b.Proofs = append([]wire.OfferProof{}, good.Proofs...)
		c.change(&b)
		if err := leader.step(labSigned(c.from, b)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(leader.m.planner.offers()); n > 0 {
			t.Fatalf("%s: %d offers are taken", name, n)
		}
	}
	if err := leader.step(labSigned(elector, good)); err != nil || len(leader.m.planner.offers()) != 2 {
		t.Errorf("%v, %d offers", err, len(leader.m.planner.offers()))
	}
}

// An elector counts what the leader shows to have, hands over the rest, and does so again if the
// leader has lost it; of a BEAT over other members it takes nothing.
func TestWhatALeaderShows(t *testing.T) {
	l := idleLab(t)
	_, m := electorOf(l)
	ho, all := m.handover, len(m.chain.Members())
	has := slot.NewBitmap(all)
	for _, n := range "ABCDE" {
		i := slot.Find(m.chain.Members(), labID(string(n)))
		has.Set(i)
		a := m.presence.known[ofMember(m.chain.Members()[i])]
		o := stepRecord(m, string(n)).Contributions[0]
		a.offer, a.offerAt = &o, m.now
		m.proofs.note(o, l.proofs([]slot.Offer{o})[0])
	}
	if err := ho.onBeat(wire.Beat{Has: append(has, 0)}); !errors.Is(err, chain.ErrInvalid) {
		t.Errorf("a BEAT over more members: %v", err)
	}
	handed := func(after time.Duration) (names string) {
		m.now += after
		for _, a := range m.presence.known {
			a.heard = m.now
		}
		m.Ready()
		ho.handOver()
		for _, e := range m.Ready().Send {
			names += labNames(offerers(e.Body.(wire.NotYet).Offers))
		}
		return names
	}
	beat := func(has slot.Bitmap) {
		if err := ho.onBeat(wire.Beat{Has: has}); err != nil {
			t.Fatal(err)
		}
	}
	lacksC := append(slot.Bitmap{}, has...)
	lacksC[0] &^= 1 << slot.Find(m.chain.Members(), labID("C"))
	ho.turn()
	if got := handed(0); got != "" {
		t.Errorf("%s at once", got)
	}
	beat(lacksC)
	if got := handed(labTiming.Retry); got != "C" {
		t.Errorf("a Retry later it hands over %q", got)
	}
	if got := handed(labTiming.Retry); got != "" {
		t.Errorf("without a word of the leader it hands %q over again", got)
	}
	beat(lacksC)
	if got := handed(labTiming.Retry); got != "C" {
		t.Errorf("for a leader that lost C's it hands over %q", got)
	}
	if len(ho.term.given) != 5 {
		t.Errorf("%d offers count as given", len(ho.term.given))
	}
	ho.saw(planOf(m, "ABCDE"))
	beat(nil)
	if got := handed(labTiming.Retry); got != "" {
		t.Errorf("after the plan it hands over %q", got)
	}
}
