package membership

import (
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A member, and a stranger, say what others have said, changed at random, and sign it. Whatever
// comes of it for themselves, no peer's process ends, no honest one is evicted or takes itself for
// cloned, and the watcher's invariants hold.
func TestNoVariedMessageEndsAPeer(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]struct{ byzantine, rings bool }{
		"crash": {}, "crash, rings": {rings: true}, "byzantine": {byzantine: true},
	} {
		t.Run(name, func(t *testing.T) {
			for world := range testutil.Choose(2, 4, 100) {
				sayStrangeThings(t, rules.byzantine, rules.rings, uint64(world))
			}
		})
	}
}

func sayStrangeThings(t *testing.T, byzantine, rings bool, world uint64) {
	r := rand.New(rand.NewPCG(world, testutil.Random(t).Uint64()))
	rules := labRules()
	rules.Byzantine, rules.Rings, rules.StartPeers = byzantine, rings, 4
	l := newLab(t, rules, labTiming)
	l.open = true
	l.adds("ABCDE")
	liar := l.peers[4]
	liar.lies = &labLiar{p: liar, r: r}
	stranger := &labPeer{lab: l, name: "S", id: labID("S"), inc: 3}
	honest := l.peers[:4]
	for range 600 {
		l.rests(time.Duration(1+r.IntN(40)) * time.Millisecond)
		if len(l.heard) == 0 {
			continue
		}
		by := []*labPeer{liar, stranger}[r.IntN(2)]
		said, ok := varied(l, by, l.heard[r.IntN(len(l.heard))], r)
		if !ok {
			continue
		}
		for _, p := range honest {
			deliverStrange(t, p, said)
		}
	}
	for _, p := range honest {
		evicted := slices.ContainsFunc(honest, func(q *labPeer) bool {
			return slices.Contains(p.m.chain.Tip().Evicted, q.id)
		})
		if p.m.clones.own != "" || evicted {
			t.Fatalf("world %d: %s takes itself for cloned (%s), or an honest peer is evicted: %v\n%s", world, p.name,
				p.m.clones.own, evicted, l.show())
		}
	}
}

// varied is a message of a peer that says what another one has said, changed in one to three
// places, as others receive it. It is not ok where they cannot read it.
func varied(l *lab, by *labPeer, heard wire.Message, r *rand.Rand) (said wire.Message, ok bool) {
	body := reflect.New(reflect.TypeOf(heard.Body))
	body.Elem().Set(reflect.ValueOf(heard.Body))
	for range 1 + r.IntN(3) {
		testutil.Vary(body.Interface(), r.IntN)
	}
	changed := body.Elem().Interface().(wire.Body)
	if a, is := changed.(wire.Alive); is { // on the wire each peer has its link
		for len(a.Links) < len(a.Reaches) {
			a.Links = append(a.Links, slot.LinkDirect)
		}
		changed = a
	}
	if r.IntN(4) > 0 {
		changed = fitting(l.peers[0].m, changed)
	}
	sealed, err := wire.Seal(labSigner(by.id), l.rules.Run, by.inc, changed)
	if err != nil {
		return said, false
	}
	said, err = wire.Open(sealed, l.rules.Run, labVerify)
	return said, err == nil
}

// fitting is a body with what is easy to get right: the place of its record, its work, its hash.
// Else few checks would be reached.
func fitting(m *Machine, b wire.Body) wire.Body {
	fit := func(r slot.Record) slot.Record {
		next := m.chain.Next()
		r.Run, r.Height, r.Prev = m.cfg.Rules.Run, next.Height, next.Prev
		r.Work = m.chain.WorkAfter(r.Kind, r.Contributions)
		if r.Kind == slot.Fork {
			r.Work = m.chain.Tip().Work
		}
		return r
	}
	switch b := b.(type) {
	case wire.Draft:
		b.Record = fit(b.Record)
		b.Ref, b.Hash = m.open.position(b.Ballot), b.Record.Hash()
		return b
	case wire.Commit:
		b.Record = fit(b.Record)
		b.Certificate.Ref, b.Certificate.Hash = m.open.position(b.Certificate.Ballot), b.Record.Hash()
		return b
	case wire.ForkDraft:
		b.Record = fit(b.Record)
		return b
	}
	return b
}

type labSigner slot.PeerID

func (s labSigner) ID() slot.PeerID { return slot.PeerID(s) }

func (s labSigner) Sign(data []byte) ([]byte, error) { return labSign(slot.PeerID(s), data), nil }

func deliverStrange(t *testing.T, p *labPeer, said wire.Message) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("%s ends: %v\nafter %s %+v\n%s", p.name, r, wire.TypeName(said.Body.Type()), said.Body,
				debug.Stack())
		}
	}()
	_ = p.step(said)
}
