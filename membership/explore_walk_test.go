package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// hunt follows random schedules, each up to a number of steps: faults that lie deep are found
// sooner than breadth first. Chance is guided.
//
//   - A schedule begins in a world that another one has come to, where something new had come
//     about: a lock, a second QC, promises of a quorum, a crash.
//   - The liar says the same to some of the honest electors, mostly to as many as it needs, and
//     goes on as a leader would: draft, propose, the next ballot.
//   - What the rules allow is tried as often as all that they forbid.
//
// Nothing that may happen is impossible.
func (x *explorer) hunt(start *world, r *rand.Rand, steps int, until time.Time) {
	x.deliverAtOnce(start, func(t slot.MessageType) bool { return x.at[t] })
	begin, seen := [][]*world{{start}}, map[string]bool{} // by how much has come about
	for x.fault == "" && time.Now().Before(until) {
		like := begin[r.IntN(len(begin))]
		w := like[r.IntN(len(like))]
		g := guide{explorer: x, r: r, said: slot.TypeRetry, ballot: uint32(r.IntN(int(x.liar.tries)))}
		for i := 0; i < steps && x.fault == ""; i++ {
			if w = g.next(w); x.undecided(w) < 2 {
				break // the rest is another height
			}
			f := x.featuresOf(w)
			if key := fmt.Sprint(f, w.crashes); !seen[key] {
				seen[key] = true
				for len(begin) <= len(f) {
					begin = append(begin, []*world{w})
				}
				begin[len(f)] = append(begin[len(f)], w)
			}
		}
	}
}

// locked follows a world to one in which the liar has a QC for one record of ballot 0, and two
// honest electors have voted for another one of ballot 1.
func (x *explorer) locked(w *world) *world {
	x.deliverAtOnce(w, func(t slot.MessageType) bool { return x.at[t] })
	honest, one, other := x.honest(w), x.liar.records[0].Hash(), x.liar.records[1].Hash()
	w = x.tell(w, slot.TypeDraft, 0, one, honest[:2]...)
	w = x.tell(w, slot.TypeRetry, 1, slot.Root{}, honest[:2]...)
	w = x.tell(w, slot.TypeDraft, 1, other, honest[:2]...)
	return x.tell(w, slot.TypePropose, 1, other, honest[:2]...)
}

// honest lists the electors that are up.
func (x *explorer) honest(w *world) (ps []int) {
	for p, id := range w.peers {
		if x.locals[id].m != nil {
			ps = append(ps, p)
		}
	}
	return ps
}

// tell lets the liar say to some what the rules allow: a message of a kind, in a ballot, about a
// record.
func (x *explorer) tell(w *world, kind slot.MessageType, ballot uint32, about slot.Root, to ...int) *world {
	for _, l := range x.liesIn(w) {
		if l.body.Type() != kind || placeOf(l.body).Ballot != ballot || recordIn(l.body) != about ||
			x.classOf(l) != allowed {
			continue
		}
		if id, ok := x.said(l); ok {
			for _, p := range to {
				if n := x.follow(w, p, input{inParcel, id}, x.toldBy(p, id)); n != nil {
					w = n
				}
			}
			break
		}
	}
	return w
}

// undecided counts the honest electors that do not know the attacked height's record.
func (x *explorer) undecided(w *world) (n int) {
	for _, id := range w.peers {
		if l := x.locals[id]; !l.dead && l.disk.saved.Height < x.liar.ref.Height {
			n++
		}
	}
	return n
}

// featuresOf says what has come about in a world: of which records there are QCs, in which ballots,
// how many votes there are, which ballots a quorum has promised, and who is down.
func (x *explorer) featuresOf(w *world) (f []string) {
	k, _ := x.knows(w)
	for l, haves := range k.haves {
		if x.enough(len(haves)) {
			f = append(f, fmt.Sprint("QC ", l))
		}
	}
	for l, votes := range k.votes {
		for n := range votes {
			f = append(f, fmt.Sprint("vote ", l, n))
		}
	}
	for b, promises := range k.promises {
		if x.enough(len(promises)) {
			f = append(f, fmt.Sprint("promised ", b))
		}
	}
	for p, id := range w.peers {
		if x.locals[id].m == nil {
			f = append(f, fmt.Sprint("down ", p))
		}
	}
	slices.Sort(f)
	return f
}

// enough says whether so many honest electors are a quorum with the liar.
func (x *explorer) enough(honest int) bool { return honest+1 >= x.rules.Votes(len(x.liar.electors)) }

// guide is one schedule under way.
type guide struct {
	*explorer
	r      *rand.Rand
	ballot uint32           // that the liar leads
	said   slot.MessageType // by the liar, last
}

// next lets one thing happen, mostly to several peers.
func (g *guide) next(w *world) *world {
	switch g.r.IntN(8) {
	case 0:
		return g.own(w)
	case 1:
		return g.delivered(w)
	case 2, 3, 4:
		if n := g.restarted(w); n != w {
			return n
		}
	}
	return g.lied(w)
}

// take carries an option out; nothing may change.
func (g *guide) take(w *world, p int, in input, by func() string) *world {
	if n := g.follow(w, p, in, by); n != nil {
		g.worlds++
		return n
	}
	return w
}

type option struct {
	p  int
	in input
	by func() string
}

func (g *guide) one(w *world, options []option) *world {
	if len(options) == 0 {
		return w
	}
	o := options[g.r.IntN(len(options))]
	return g.take(w, o.p, o.in, o.by)
}

// own lets a peer do something by itself: it crashes, restarts, does its work, or its term is over.
func (g *guide) own(w *world) *world {
	var options []option
	g.ownOptions(w, func(p int, in input, by func() string) { options = append(options, option{p, in, by}) })
	return g.one(w, options)
}

// restarted starts a peer that has crashed, or does what the workers are asked for.
func (g *guide) restarted(w *world) *world {
	var audits []option
	g.ownOptions(w, func(p int, in input, by func() string) {
		switch {
		case in.kind == inAudit:
			audits = append(audits, option{p, in, by})
		case in.kind == inRestart || in.kind == inJob && g.r.IntN(4) > 0:
			w = g.take(w, p, in, by)
		}
	})
	if len(audits) == 0 {
		return w
	}
	o := audits[g.r.IntN(len(audits))]
	if in := o.in; in.kind == inAudit && !g.mayAnswer(g.locals[w.peers[o.p]], in.arg) {
		return w
	}
	return g.take(w, o.p, o.in, o.by)
}

// delivered hands over a message of an honest peer, or what all of them have said of its kind.
func (g *guide) delivered(w *world) *world {
	kinds, waits := map[slot.MessageType][]option{}, []slot.MessageType{}
	g.honestOptions(w, func(p int, in input, by func() string) {
		kind := g.parcels[in.arg].msg.Body.Type()
		if kinds[kind] == nil {
			waits = append(waits, kind)
		}
		kinds[kind] = append(kinds[kind], option{p, in, by})
	})
	if len(waits) == 0 {
		return w
	}
	options := kinds[waits[g.r.IntN(len(waits))]]
	if g.r.IntN(2) == 0 {
		return g.one(w, options)
	}
	for _, o := range options {
		w = g.take(w, o.p, o.in, o.by)
	}
	return w
}

// lied lets the liar say something to some.
func (g *guide) lied(w *world) *world {
	l := g.lie(g.liesIn(w))
	if l == nil {
		return w
	}
	id, ok := g.explorer.said(l)
	if !ok {
		return w
	}
	to := g.r.Perm(len(g.ids))
	for left := 1 + g.r.IntN(len(to)); left > 0 && len(to) > 0; to = to[1:] {
		p := to[0]
		if g.locals[w.peers[p]].m == nil {
			continue
		}
		left--
		w = g.take(w, p, input{inParcel, id}, g.toldBy(p, id))
	}
	return w
}

// lie picks one: the kind that a leader would go on with, mostly of its ballot, by what is wrong
// with it, and by its record, so that no kind is rare because there are few of it.
func (g *guide) lie(lies []*lie) *lie {
	kind := g.kind()
	of := some(lies, func(l *lie) bool { return l.body.Type() == kind })
	if len(of) == 0 {
		return nil
	}
	if g.said = kind; kind == slot.TypeRetry {
		g.ballot = min(g.ballot+1+uint32(g.r.IntN(2)), g.liar.tries-1)
	}
	if g.r.IntN(4) > 0 {
		of = orAll(of, func(l *lie) bool { return placeOf(l.body).Ballot == g.ballot })
	}
	class := allowed
	if g.r.IntN(2) == 0 {
		class = 1 + g.r.IntN(classes)
	}
	of = orAll(of, func(l *lie) bool { return g.classOf(l) == class })
	var records []slot.Root
	for _, l := range of {
		if h := recordIn(l.body); !slices.Contains(records, h) {
			records = append(records, h)
		}
	}
	about := records[g.r.IntN(len(records))]
	of = some(of, func(l *lie) bool { return recordIn(l.body) == about })
	return of[g.r.IntN(len(of))]
}

func some(lies []*lie, ok func(*lie) bool) (of []*lie) {
	for _, l := range lies {
		if ok(l) {
			of = append(of, l)
		}
	}
	return of
}

// orAll is some of them, or all if there are none.
func orAll(lies []*lie, ok func(*lie) bool) []*lie {
	if of := some(lies, ok); len(of) > 0 {
		return of
	}
	return lies
}

func recordIn(b wire.Body) slot.Root {
	if c, ok := b.(wire.Commit); ok {
		return c.Certificate.Hash
	}
	return voteIn(b).Hash
}

// kind is what the liar says next.
func (g *guide) kind() slot.MessageType {
	pick := func(first slot.MessageType, others ...slot.MessageType) slot.MessageType {
		if g.r.IntN(10) < 6 {
			return first
		}
		return others[g.r.IntN(len(others))]
	}
	switch g.said {
	case slot.TypeRetry, slot.TypePromise:
		return pick(slot.TypeDraft, slot.TypeDraft, slot.TypeRetry, slot.TypePromise)
	case slot.TypeDraft:
		return pick(slot.TypePropose, slot.TypeRetry, slot.TypeDraft)
	case slot.TypePropose:
		return pick(slot.TypeRetry, slot.TypeDraft, slot.TypePropose, slot.TypeCommit)
	}
	return pick(slot.TypeRetry, slot.TypeDraft, slot.TypePropose, slot.TypeHave, slot.TypeVote, slot.TypePromise)
}

// Classes of lies, by the rule for which honest machines refuse them.
const (
	allowed   = 1 + iota
	fewAgree  // no quorum of promises or HAVEs or votes
	notTop    // there is a higher lock
	noQC      // the lock has none
	notLocked // it is of another record
	classes   = iota
)

func (x *explorer) classOf(l *lie) int {
	if l.class == 0 {
		l.class = x.classify(l.body)
	}
	return l.class
}

func (x *explorer) classify(b wire.Body) int {
	c := x.liar.chain
	quorum := func(gave func(slot.PeerID) bool) bool {
		return x.rules.Quorum(x.liar.electors, func(e slot.Member) bool { return gave(e.Peer) })
	}
	switch b := b.(type) {
	case wire.Draft:
		switch {
		case c.CheckGrounds(b.Grounds, b.Ballot, b.Record) == nil:
			return allowed
		case !x.promised(b.Grounds):
			return fewAgree
		case b.Grounds.QC != nil && c.CheckQC(*b.Grounds.QC, b.Record) == nil:
			return notTop
		case b.Grounds.Highest() != nil && b.Grounds.Highest().Hash == b.Hash:
			return noQC
		}
		return notLocked
	case wire.Propose:
		if !quorum(func(p slot.PeerID) bool { return slices.ContainsFunc(b.QC.Haves, of(p)) }) {
			return fewAgree
		}
	case wire.Commit:
		if !quorum(func(p slot.PeerID) bool {
			return slices.ContainsFunc(b.Certificate.Signatures, func(s slot.Signature) bool { return s.Peer == p })
		}) {
			return fewAgree
		}
	}
	return allowed
}

// promised says whether a quorum has given the promises of a draft.
func (x *explorer) promised(g wire.Grounds) bool {
	return x.rules.Quorum(x.liar.electors, func(e slot.Member) bool {
		return slices.ContainsFunc(g.Promises, func(p wire.Promised) bool { return p.Peer == e.Peer })
	})
}
