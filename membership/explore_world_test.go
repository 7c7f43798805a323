package membership

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// The explorer visits every state that a few real machines can get into, within bounds. A message,
// once sent, stays: its receiver may get it at any time, often, or never, which covers loss,
// duplication, reordering and delay. Peers crash (all but the disk goes), restart, or die for good;
// a term may be over for anybody at any time.
//
// What an input does to one peer depends on that peer alone, so it is computed once for each
// distinct peer state and looked up after that: a world is a few small numbers.
type explorer struct {
	rules chain.Rules
	slots uint64 // offers stop after this one
	now   time.Duration
	ids   []slot.PeerID
	incs  []slot.Incarnation

	terms                     uint32 // highest term
	crashes, deaths, mistrust int
	// delivered at once and to all peers that are up: fewer orders to visit
	at    map[slot.MessageType]bool
	plant plant // the fault to be found
	liar  *liar // nil: nobody lies
	// what audits may find; nil: there are none
	audits *explorerAudits
	// one of so many worlds is followed to the end; 0: none
	continueOne, continued int
	slowest                uint32 // term that one of these went to
	certifiable, decisions int    // of the worlds that were wandered to

	locals   []local
	localIDs map[uint64]int
	parcels  []parcel
	parcelID map[string]int
	memo     map[step]effect

	seen   map[string]bool
	worlds int
	limit  int
	fault  string
	trace  []string
}

type step struct {
	local int
	in    input
}

// parcel is a message on its way to one peer. Those to -1 only remember that something binding was
// said.
type parcel struct {
	to  int
	msg wire.Message
	// once the receiver's chain has it, the message is without effect; 0 if that cannot be said
	height uint64
}

// world is the state of everything.
type world struct {
	peers                     []int  // locals
	sent                      []byte // set of parcels
	crashes, deaths, mistrust int
	from                      *world
	by                        string
}

func (w *world) has(p int) bool { return p/8 < len(w.sent) && w.sent[p/8]>>(p%8)&1 == 1 }

// parcels goes over those that were sent.
func (w *world) parcels(do func(id int)) {
	for i, set := range w.sent {
		for j := 0; set != 0; j, set = j+1, set>>1 {
			if set&1 == 1 {
				do(8*i + j)
			}
		}
	}
}

// key names a world. Messages that cannot have an effect any more are left out.
func (x *explorer) key(w *world) string {
	b := make([]byte, 0, 4*len(w.peers)+len(w.sent)+3)
	for _, p := range w.peers {
		b = append(b, byte(p), byte(p>>8), byte(p>>16))
	}
	b = append(b, byte(w.crashes), byte(w.deaths), byte(w.mistrust))
	at := len(b)
	b = append(b, w.sent...)
	w.parcels(func(id int) {
		if x.void(w, x.parcels[id]) {
			b[at+id/8] &^= 1 << (id % 8)
		}
	})
	return string(bytes.TrimRight(b, "\x00"))
}

func (x *explorer) void(w *world, p parcel) bool {
	if p.to < 0 {
		return false
	}
	l := x.locals[w.peers[p.to]]
	return l.dead || p.height > 0 && p.height <= l.disk.saved.Height
}

// newExplorer starts from a run of n members made in the lab, and newcomers who have the state and
// ask to be members.
func newExplorer(t *testing.T, n, newcomers int, slots uint64) (*explorer, *world) {
	return newExplorerOf(t, labRules(), n, newcomers, slots)
}

func newExplorerOf(t *testing.T, rules chain.Rules, n, newcomers int, slots uint64) (*explorer, *world) {
	l := newLab(t, rules, labTiming)
	for i := range n + newcomers {
		name := string(rune('A' + i))
		l.add(name).trains = false
		if i >= n {
			l.filters = append(l.filters, &labFilter{from: name, kind: "join", left: -1})
		}
	}
	l.awaits(t, "the run is founded", func() bool {
		return !slices.ContainsFunc(l.peers, func(p *labPeer) bool {
			v := p.m.View()
			return len(v.Tip.Electors()) < n || v.Applied < v.Tip.Height
		})
	})
	return explorerOf(l, slots)
}

// explorerOf starts from what the peers of a lab have on their disks.
func explorerOf(l *lab, slots uint64) (*explorer, *world) {
	x := &explorer{
		rules: l.rules, slots: slots, localIDs: map[uint64]int{}, parcelID: map[string]int{}, memo: map[step]effect{},
		seen: map[string]bool{}, limit: 1 << 30, now: l.now,
	}
	w := &world{}
	for _, p := range l.peers {
		x.ids, x.incs = append(x.ids, p.id), append(x.incs, p.inc)
	}
	for i, p := range l.peers {
		saved, _ := p.store.Load()
		h, s, _ := p.state()
		on := localDisk{saved: saved, chain: recordsOf(p.store), height: h, root: s.root}
		lo, sent, _ := x.restart(i, local{disk: on})
		w.peers = append(w.peers, x.internLocal(lo))
		x.post(w, sent)
	}
	return x, w
}

func (x *explorer) config(p int) Config {
	return Config{
		Self: x.ids[p], Incarnation: x.incs[p], Rules: x.rules, Timing: labTiming, Plan: labPlanner, Verify: labVerify,
	}
}

func (x *explorer) internLocal(l local) int {
	f := fingerprint(l)
	id, ok := x.localIDs[f]
	if !ok {
		id = len(x.locals)
		x.locals, x.localIDs[f] = append(x.locals, l), id
	}
	return id
}

// internParcel gives a message to a receiver a number. ALIVE, NEED and BEAT play no part without
// time.
func (x *explorer) internParcel(p parcel) (int, bool) {
	switch p.msg.Body.Type() {
	case slot.TypeAlive, slot.TypeBeat:
		return 0, false
	}
	p.height = placeOf(p.msg.Body).Height
	if _, ok := p.msg.Body.(wire.Retry); ok {
		p.height = 0 // answered with the certificate
	}
	key := fmt.Sprintf("%d %s %d %s", p.to, p.msg.From, p.msg.Body.Type(), p.msg.Body.Append(nil))
	if p.to == anybody {
		key += fmt.Sprint(fingerprint(p.msg.Body)) // what travels unsigned makes the lie
	}
	id, ok := x.parcelID[key]
	if !ok {
		id = len(x.parcels)
		x.parcels, x.parcelID[key] = append(x.parcels, p), id
	}
	return id, true
}

func (x *explorer) post(w *world, sent []parcel) {
	for _, p := range sent {
		if id, ok := x.internParcel(p); ok {
			w.add(id)
		}
	}
}

func (w *world) add(p int) {
	if !w.has(p) {
		grown := make([]byte, max(len(w.sent), p/8+1))
		copy(grown, w.sent)
		grown[p/8] |= 1 << (p % 8)
		w.sent = grown
	}
}

// effectOf looks up or computes what an input does to a peer.
func (x *explorer) effectOf(p, local int, in input) effect {
	at := step{local, in}
	if e, ok := x.memo[at]; ok {
		return e
	}
	next, sent, fault := x.run(p, x.locals[local], in)
	e := effect{next: x.internLocal(next), fault: fault}
	for _, s := range sent {
		if id, ok := x.internParcel(s); ok {
			e.sent = append(e.sent, id)
		}
	}
	x.memo[at] = e
	return e
}

// follow makes the world after an input, with what is delivered at once. Nil if nothing changed.
func (x *explorer) follow(w *world, p int, in input, by func() string) *world {
	next := &world{
		peers: slices.Clone(w.peers), sent: w.sent, crashes: w.crashes, deaths: w.deaths, mistrust: w.mistrust, from: w,
		by: by(),
	}
	switch in.kind {
	case inCrash:
		next.crashes++
	case inDie:
		next.deaths++
	case inUnheard:
		next.mistrust++
	}
	if !x.apply(next, p, in) {
		return nil
	}
	return next
}

func (x *explorer) apply(w *world, p int, in input) bool {
	e := x.effectOf(p, w.peers[p], in)
	if e.fault != "" {
		x.fail(w, e.fault)
	}
	changed := e.next != w.peers[p]
	w.peers[p] = e.next
	for _, id := range e.sent {
		if w.has(id) {
			continue
		}
		changed = true
		w.add(id)
		x.checkSent(w, id)
		if q := x.parcels[id]; q.to >= 0 && x.at[q.msg.Body.Type()] && x.locals[w.peers[q.to]].m != nil {
			x.apply(w, q.to, input{inParcel, id})
		}
	}
	return changed
}

// explore visits worlds breadth first, so that the schedule of a fault is a shortest one.
func (x *explorer) explore(start *world) (complete bool) {
	x.deliverAtOnce(start, func(t slot.MessageType) bool { return t == slot.TypeJoin })
	x.deliverAtOnce(start, func(t slot.MessageType) bool { return x.at[t] })
	x.seen[x.key(start)] = true
	for queue := []*world{start}; len(queue) > 0 && x.fault == ""; queue = queue[1:] {
		for _, next := range x.successors(queue[0]) {
			if k := x.key(next); !x.seen[k] {
				x.seen[k] = true
				x.worlds++
				x.checkHad(next)
				x.visited(next)
				queue = append(queue, next)
			}
		}
		if x.worlds >= x.limit {
			return false
		}
	}
	return x.fault == ""
}

// deliverAtOnce delivers what was said in a world before the bounds were set. Other worlds may have
// been visited by then.
func (x *explorer) deliverAtOnce(w *world, is func(slot.MessageType) bool) {
	for id := 0; id < len(x.parcels); id++ {
		if p := x.parcels[id]; w.has(id) && p.to >= 0 && x.locals[w.peers[p.to]].m != nil && is(p.msg.Body.Type()) {
			x.apply(w, p.to, input{inParcel, id})
		}
	}
}

// successors lists the worlds that may come next.
func (x *explorer) successors(w *world) (next []*world) {
	x.options(w, func(p int, in input, by func() string) {
		if n := x.follow(w, p, in, by); n != nil {
			next = append(next, n)
		}
	})
	return next
}

// options lists what may happen next.
func (x *explorer) options(w *world, try func(int, input, func() string)) {
	x.ownOptions(w, try)
	for p, id := range w.peers {
		if x.locals[id].m != nil {
			x.tryLies(w, p, try)
		}
	}
	x.honestOptions(w, try)
}

// ownOptions lists what may happen to peers without a message.
func (x *explorer) ownOptions(w *world, try func(int, input, func() string)) {
	for p, id := range w.peers {
		l := x.locals[id]
		name := labName(x.ids[p])
		if l.dead {
			continue
		}
		if w.deaths < x.deaths && x.mayDie(p) {
			try(p, input{inDie, 0}, func() string { return name + " dies" })
		}
		if l.m == nil {
			try(p, input{inRestart, 0}, func() string { return name + " restarts" })
			continue
		}
		if w.crashes < x.crashes {
			try(p, input{inCrash, 0}, func() string { return name + " crashes" })
		}
		x.tryOwn(w, p, l, try)
	}
}

// honestOptions lists the messages of honest peers that may arrive.
func (x *explorer) honestOptions(w *world, try func(int, input, func() string)) {
	w.parcels(func(id int) {
		if p := x.parcels[id]; p.to >= 0 && x.locals[w.peers[p.to]].m != nil && !x.void(w, p) {
			try(p.to, input{inParcel, id}, func() string {
				return fmt.Sprintf("%s to %s: %s", labName(p.msg.From), labName(x.ids[p.to]), describe(p.msg.Body))
			})
		}
	})
}

// tryOwn is what a running peer may do by itself.
func (x *explorer) tryOwn(w *world, p int, l local, try func(int, input, func() string)) {
	name := labName(x.ids[p])
	if l.m.elector() && l.m.chain.OpenSlot() <= x.slots && l.m.open.term() < x.terms {
		term := l.m.open.term()
		try(p, input{inOver, 0}, func() string { return fmt.Sprintf("term %d is over for %s", term, name) })
	}
	if w.mistrust < x.mistrust && l.m.open.lead != nil {
		for q := range x.ids {
			if q != p {
				try(p, input{inUnheard, q}, func() string { return name + " takes " + labName(x.ids[q]) + " for lost" })
			}
		}
	}
	for i, j := range l.jobs {
		if x.possible(w, l, j) {
			try(p, input{inJob, i}, func() string { return fmt.Sprintf("%s does %T", name, j) })
		}
	}
	x.tryAudits(w, p, l, try)
}
