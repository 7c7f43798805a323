package membership

import (
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// fairly lets all that honest peers say arrive, and all that their workers are asked for be done,
// until nothing changes any more. The liar is silent.
func (x *explorer) fairly(w *world) *world {
	for changed, rounds := true, 0; changed && rounds < 50; rounds++ {
		changed = false
		do := func(p int, in input, by func() string) {
			if in.kind != inParcel && in.kind != inJob || in.kind == inJob && in.arg >= len(x.locals[w.peers[p]].jobs) {
				return
			}
			if in.kind == inParcel && x.parcels[in.arg].msg.From == x.ids[x.liar.at] {
				return
			}
			if n := x.follow(w, p, in, by); n != nil {
				w, changed = n, true
			}
		}
		x.ownOptions(w, do)
		x.honestOptions(w, do)
	}
	return w
}

// withoutOffer takes what the liar has offered out of a world: in an explorer's world no owner is
// waited for and left out.
func (x *explorer) withoutOffer(w *world) {
	for _, p := range x.honest(w) {
		lo := x.locals[w.peers[p]]
		lo.m = copyMachine(lo.m)
		for k, a := range lo.m.presence.known {
			if k.peer == x.ids[x.liar.at] {
				a.offer, a.heard = nil, never
			}
		}
		w.peers[p] = x.internLocal(lo)
	}
}

// over ends the term for some.
func (x *explorer) over(w *world, ps ...int) *world {
	for _, p := range ps {
		by := func() string { return "the term is over for " + labName(x.ids[p]) }
		if n := x.follow(w, p, input{inOver, 0}, by); n != nil {
			w = n
		}
	}
	return w
}

// decided says whether an honest leader has a certificate for the attacked height.
func (x *explorer) decided(w *world) (yes bool) {
	w.parcels(func(id int) {
		c, ok := x.parcels[id].msg.Body.(wire.Commit)
		yes = yes || ok && c.Certificate.Height == x.liar.ref.Height
	})
	return yes
}

// TestExploreLiarDoesNotStopTheHeight has one honest leader get the height decided, without the
// liar and whichever promises it counts. With one rule more than there should be, it cannot.
func TestExploreLiarDoesNotStopTheHeight(t *testing.T) {
	strict := func(x *explorer, m *Machine, msg wire.Message) wire.Message {
		d, ok := msg.Body.(wire.Draft)
		own := m.pledges.open.Vote
		if ok && own != nil && own.QC.Hash != d.Hash && (d.Grounds.QC == nil || d.Grounds.QC.Ballot <= own.QC.Ballot) {
			msg.Body = wire.Beat{Ref: d.Ref}
		}
		return msg
	}
	anew := func(x *explorer, m *Machine, msg wire.Message) wire.Message {
		if l := m.open.lead; l != nil && l.draft != nil {
			for who, h := range l.haves {
				if h.Ballot < l.ref.Ballot {
					delete(l.haves, who)
				}
			}
		}
		return msg
	}
	for _, c := range []struct {
		name  string
		first int
		world func(x *explorer, w *world, leader int, others []int) *world
		plant func(*explorer, *Machine, wire.Message) wire.Message
	}{
		{
			// an entrant, which is the liar's, gave HAVE at ballot 0, one elector has the lock, and
			// the entrant is silent from now on
			name: "HAVEs of entrants anew in each ballot (m13)", plant: anew, first: 7,
			world: func(x *explorer, w *world, leader int, others []int) *world {
				x.promotes()
				r := &x.liar.records[len(x.liar.records)-1]
				given := false
				for i, m := range r.Members {
					if m.Seat == r.Height && given {
						r.Members[i].Seat = 0
					}
					given = given || m.Seat == r.Height
				}
				w = x.tell(w, slot.TypeDraft, 0, r.Hash(), leader, others[0])
				w = x.tell(w, slot.TypePropose, 0, r.Hash(), others[0])
				return x.fairly(x.over(w, leader, others[0], others[1]))
			},
		},
		{
			// one elector has a lock, and the leader counts the liar's promise instead of that
			// one's
			name: "an elector follows its own lock alone (m15)", plant: strict,
			world: func(x *explorer, w *world, leader int, others []int) *world {
				r := x.liar.records[0].Hash()
				w = x.tell(w, slot.TypeDraft, 0, r, leader, others[0])
				w = x.tell(w, slot.TypePropose, 0, r, others[0])
				w = x.over(w, leader, others[1])
				w = x.tell(w, slot.TypePromise, slot.Tries, slot.Root{}, leader)
				x.withoutOffer(w)
				return x.fairly(w) // the one with the lock joins last
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, planted := range []bool{false, true} {
				rules := labRules()
				rules.Byzantine, rules.StartPeers = true, c.first
				x, w := newLiarsWorld(t, rules, 4, 1)
				x.terms, x.liar.terms = 1, []uint32{slot.Tries}
				if planted {
					x.plant.before = c.plant
				}
				x.deliverAtOnce(w, func(t slot.MessageType) bool { return x.at[t] })
				x.withoutOffer(w)
				leads := slices.Index(x.ids, x.locals[w.peers[x.honest(w)[0]]].m.open.leader(slot.Tries).Peer)
				others := slices.DeleteFunc(x.honest(w), func(p int) bool { return p == leads })
				w = c.world(x, w, leads, others)
				if x.fault != "" || x.decided(w) == planted {
					var said []string
					for v := w; v.from != nil; v = v.from {
						said = append(said, v.by)
					}
					slices.Reverse(said)
					t.Errorf("planted %v, decided %v %s\n%s", planted, x.decided(w), x.fault, strings.Join(said, "\n"))
				}
			}
		})
	}
}
