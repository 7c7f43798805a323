package membership

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// labLiar makes a peer of the lab hostile. Its machine goes on as any other, so that it is trusted
// and leads; beside what that says, the peer says anything that it can sign, to some, and withholds
// some of what it should say.
type labLiar struct {
	p      *labPeer
	r      *rand.Rand
	kinds  []labLie // of lies that it tells
	mute   int      // percent of what its machine says that does not reach one
	told   int
	counts lieCounts
}

// lieCounts says how often lies of each kind were told, and how often an honest peer took one in,
// or refused it for what it is.
type lieCounts map[string]lieCount

type lieCount struct{ told, heard int }

func (c lieCounts) add(kind string, more lieCount) {
	c[kind] = lieCount{c[kind].told + more.told, c[kind].heard + more.heard}
}

func (c lieCounts) sum(l *labLiar) {
	for kind, n := range l.counts {
		c.add(kind, n)
	}
}

// check expects each kind of lie to have got somewhere, in a night. By day there are few worlds.
func (c lieCounts) check(t *testing.T, of []labLie) {
	for _, k := range of {
		if n := c[k.name]; n.heard == 0 && testutil.Nightly() {
			t.Errorf("lie %q got nowhere, told %d times: mend it, or drop it", k.name, n.told)
		}
	}
	t.Logf("lies told, and heard: %v", c)
}

// newLabLiar makes a peer hostile, in a way of its own: one that tells all kinds of lies is soon
// no member any more.
func newLabLiar(p *labPeer, seed uint64) *labLiar {
	l := &labLiar{p: p, r: rand.New(rand.NewPCG(seed, 7)), counts: lieCounts{}}
	for _, k := range labLies {
		if l.r.IntN(3) > 0 {
			l.kinds = append(l.kinds, k)
		}
	}
	if l.r.IntN(2) == 0 { // it keeps its seat
		l.kinds = slices.DeleteFunc(l.kinds, func(k labLie) bool { return k.cost != costsNothing })
	}
	l.mute = []int{0, 0, 10, 50}[l.r.IntN(4)]
	p.lies = l
	p.auditor = labAuditor{forges: l.r.IntN(4) == 0, blind: true}
	if l.r.IntN(3) == 0 {
		p.auditor.hides = []string{"*", "AB", "BC", "CDE"}[l.r.IntN(4)]
	}
	l.goOn()
	return l
}

// goOn lies a few times a second.
func (l *labLiar) goOn() {
	l.p.lab.at(l.p.lab.now+time.Duration(50+l.r.IntN(400))*time.Millisecond, func() {
		l.lie()
		l.goOn()
	})
}

func (l *labLiar) withholds(wire.Message, *labPeer) bool { return l != nil && l.r.IntN(100) < l.mute }

// besides lies right after the machine has said something, sometimes: a second draft beside its
// own, another segment of the plan by which it has reduced.
func (l *labLiar) besides(b wire.Body) {
	if l != nil && l.r.IntN(8) == 0 {
		l.p.later(0, func() { l.lie(labLiesBeside[b.Type()]...) })
	}
}

// lie says something to some peers: what is named, if this liar says that, or anything.
func (l *labLiar) lie(beside ...string) {
	if !l.p.up() || l.p.m.chain.Height() == 0 || len(l.kinds) == 0 {
		return
	}
	if l.r.IntN(8) == 0 { // what somebody said before
		if heard := l.p.lab.heard; len(heard) > 0 {
			l.send(heard[l.r.IntN(len(heard))], nil)
		}
		return
	}
	for range 8 { // most need something to lie about
		k := l.kinds[l.r.IntN(len(l.kinds))]
		if len(beside) > 0 && !slices.Contains(beside, k.name) || k.cost == dropsLiar && l.r.IntN(8) > 0 {
			continue
		}
		if b := k.make(l, l.p.m); b != nil {
			l.say(b, k)
			return
		}
	}
}

func (l *labLiar) sign(b wire.Body) wire.Message { return l.signAs(l.p.inc, b) }

func (l *labLiar) signAs(inc slot.Incarnation, b wire.Body) wire.Message {
	msg := wire.Message{From: l.p.id, Incarnation: inc, Body: b}
	msg.Sig = labSign(l.p.id, slot.SignedBytes(b.Type(), l.p.lab.rules.Run, l.p.id, inc, b.Append(nil)))
	return msg
}

// say signs a lie, and counts what the honest make of it.
func (l *labLiar) say(b wire.Body, k labLie) {
	l.counts.add(k.name, lieCount{told: 1})
	msg := l.sign(b)
	if x, ok := b.(wire.Retired); ok { // it is another process's to say
		msg = l.signAs(l.p.inc+1, x)
	}
	l.send(msg, func(err error) {
		if err == nil || k.refused != "" && strings.Contains(err.Error(), k.refused) {
			l.counts.add(k.name, lieCount{heard: 1})
		}
	})
}

func (l *labLiar) send(msg wire.Message, honest func(error)) {
	l.told++
	for _, q := range l.p.lab.peers {
		if q != l.p && l.r.IntN(3) > 0 {
			l.p.lab.route(labMessage{to: q, msg: msg, heard: honest})
		}
	}
}

// overheard keeps what is said for liars.
func (l *lab) overheard(msg wire.Message) {
	l.heard = append(l.heard[max(0, len(l.heard)-200):], msg)
}

// ref is a ballot of the open position, mostly a near one, and often one that this peer leads.
func (l *labLiar) ref() slot.Ref {
	d := l.p.m.open
	if l.r.IntN(2) == 0 {
		for b := d.ballot; b < d.ballot+uint32(len(d.order))*slot.Tries; b += slot.Tries {
			if d.leader(b).Peer == l.p.id {
				return d.position(b)
			}
		}
	}
	near := d.ballot + uint32(l.r.IntN(3))
	return d.position([]uint32{d.ballot, near, (d.term() + 1) * slot.Tries, uint32(l.r.IntN(64)), 1 << 30}[l.r.IntN(5)])
}

// record is one that might follow: one that was drafted, or one with another stranger, or without a
// member, or with nobody but this peer.
func (l *labLiar) record() slot.Record {
	m := l.p.m
	if d := m.open.draft; d != nil && l.r.IntN(2) == 0 {
		return d.Record
	}
	listed := slices.Clone(m.chain.Members())
	switch i := l.r.IntN(len(listed)); l.r.IntN(3) {
	case 0:
		listed = insertMember(listed, slot.Member{Peer: labID(string(rune('W' + l.r.IntN(3)))), Incarnation: 1})
	case 1:
		listed = slices.Delete(listed, i, i+1)
	case 2:
		if self, ok := chain.FindMember(listed, l.p.id, l.p.inc); ok {
			listed = []slot.Member{self}
		}
	}
	next := m.chain.Next()
	r := slot.Record{
		Run: m.cfg.Rules.Run, Kind: slot.Members, Height: next.Height, Prev: next.Prev, Slot: m.chain.Tip().Slot,
		StateRoot: m.model.state.root, Work: m.chain.WorkAfter(slot.Members, nil),
	}
	return m.chain.Settle(r, chain.Turnover{Listed: listed})
}

// fork is a fork by all that it lists, as its peers would draft it.
func (l *labLiar) fork() slot.Record {
	m, r := l.p.m, l.record()
	r.Kind, r.Contributions, r.Segments, r.Work = slot.Fork, nil, nil, m.chain.Tip().Work
	return m.chain.SettleFork(r, chain.Turnover{Listed: r.Members})
}

// vote is one that others may wait for, or a vote for anything.
func (l *labLiar) vote() slot.Vote {
	if d := l.p.m.open.draft; d != nil && l.r.IntN(2) == 0 {
		return d.Vote
	}
	return slot.Vote{Ref: l.ref(), Hash: l.record().Hash()}
}

func (l *labLiar) qc(v slot.Vote) wire.QC {
	have := l.sign(wire.Have{Vote: v})
	return wire.QC{Ballot: v.Ballot, Hash: v.Hash, Haves: []wire.SignedHave{
		{Peer: have.From, Incarnation: have.Incarnation, Ballot: v.Ballot, Sig: have.Sig},
	}}
}

func (l *labLiar) someone() slot.Member {
	ms := l.p.m.chain.Members()
	return ms[l.r.IntN(len(ms))]
}

// lastHeard is the newest message of a kind that anybody has said.
func lastHeard[B wire.Body](l *labLiar) (b B, ok bool) {
	for _, msg := range slices.Backward(l.p.lab.heard) {
		if b, ok = msg.Body.(B); ok {
			return b, true
		}
	}
	return b, false
}

func (l *labLiar) bitmap() slot.Bitmap {
	b := slot.NewBitmap(len(l.p.m.chain.Members()))
	for i := range len(l.p.m.chain.Members()) {
		if l.r.IntN(2) == 0 {
			b.Set(i)
		}
	}
	return b
}
