package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// fair is how a world goes on once messages arrive at once. Time passes, the machines' clocks run,
// and what was on its way is lost: they repeat it. Peers that are down start again. Nobody shows
// the contribution of one that has died.
type fair struct {
	*explorer
	peers []local
	queue []parcel
	heard bool // the liar says that it lives, and what its pieces give; else it is gone
	// places of those to whom it does not show its contribution, from the start and for good
	dark uint
}

const fairStep = 100 * time.Millisecond

// goesOn says whether an honest continuation of a world decides the open slot at all honest peers
// that live, within some time, and to which term the height went.
func (x *explorer) goesOn(w *world, heard bool, dark uint, within time.Duration) (terms uint32, ok bool) {
	begun := x.now
	defer func() { x.now = begun }()
	f := &fair{explorer: x, heard: heard, dark: dark}
	for p, id := range w.peers {
		l := x.locals[id]
		switch {
		case l.dead:
		case l.m == nil:
			f.takes(p, l, input{kind: inRestart})
			continue
		default:
			l.m = copyMachine(l.m)
		}
		f.peers = append(f.peers, l)
	}
	slots := x.slots
	x.slots = x.liar.chain.OpenSlot()
	defer func() { x.slots = slots }()
	for x.now < begun+within {
		x.now += fairStep
		f.round()
		terms = max(terms, f.term())
		if f.done() {
			return terms, x.fault == ""
		}
	}
	return terms, false
}

// term is the highest one that somebody follows at the height that the liar attacks.
func (f *fair) term() (t uint32) {
	for _, l := range f.peers {
		if !l.dead && l.m.open.ref.Height == f.liar.ref.Height {
			t = max(t, l.m.open.term())
		}
	}
	return t
}

// takes starts a peer that was down.
func (f *fair) takes(p int, l local, in input) {
	l, sent, _ := f.run(p, l, in)
	f.peers = append(f.peers, l)
	f.queue = append(f.queue, sent...)
}

// done says whether the slot that is open in the explored worlds is decided.
func (f *fair) done() bool {
	return !slices.ContainsFunc(f.peers, func(l local) bool {
		return !l.dead && l.m.chain.Tip().Slot < f.slots
	})
}

// round lets the clocks go on, and all that follows arrive.
func (f *fair) round() {
	for p, l := range f.peers {
		if !l.dead {
			l.m.Tick(f.now)
			f.drained(p, l)
		}
	}
	if f.heard && f.now/fairStep%5 == 0 {
		f.liarLives()
	}
	for range 10_000 {
		if len(f.queue) > 0 {
			next := f.queue[0]
			f.queue = f.queue[1:]
			f.deliver(next)
		} else if !f.works() {
			return
		}
	}
}

// drained keeps what became of a peer, and what it sends.
func (f *fair) drained(p int, l local) {
	l, sent, fault := f.drain(p, l)
	f.peers[p] = l
	f.queue = append(f.queue, sent...)
	if fault != "" {
		f.fail(nil, fault)
	}
}

func (f *fair) deliver(n parcel) {
	switch {
	case n.to < 0:
	case n.to == f.liar.at:
		f.liarGets(n.msg)
	case !f.peers[n.to].dead:
		l := f.peers[n.to]
		f.step(l.m, n.msg)
		f.drained(n.to, l)
	}
}

// liarLives has the liar say that it stands where the others do.
func (f *fair) liarLives() {
	for _, l := range f.peers {
		if l.dead {
			continue
		}
		tip := l.m.chain.Tip()
		f.tells(wire.Alive{
			Branch: l.m.chain.Branch(), Height: tip.Height, Tip: l.m.chain.TipHash(), Work: tip.Work,
			Applied: tip.Height,
			Synced:  true, Slot: tip.Slot, Contributes: true,
		})
		return
	}
}

// liarGets has the liar reduce what a plan gives it.
func (f *fair) liarGets(msg wire.Message) {
	p, ok := msg.Body.(wire.Plan)
	if !ok || !f.heard {
		return
	}
	for _, piece := range p.Pieces {
		if piece.Owner == f.ids[f.liar.at] {
			f.tells(f.segmentOf(p.Plan, piece, false))
		}
	}
}

func (f *fair) tells(b wire.Body) {
	for p := range f.peers {
		if p != f.liar.at {
			f.queue = append(f.queue, parcel{to: p, msg: f.sign(b)})
		}
	}
}

// works has one worker do what it is asked for.
func (f *fair) works() bool {
	for p, l := range f.peers {
		if l.dead || len(l.jobs) == 0 {
			continue
		}
		job := l.jobs[0]
		audit, isAudit := job.(WorkAudit)
		if !isAudit {
			if !f.has(job) {
				l.jobs = slices.Clone(l.jobs[1:])
				l.m.Report(f.now, ReportFailed{Work: job, Err: "nobody has it", Missing: f.lost(job)})
			} else {
				f.work(p, &l, job)
			}
			f.drained(p, l)
			return true
		}
		l.jobs = slices.Clone(l.jobs[1:])
		f.audited(l.m, f.fairAnswer(p, audit))
		f.drained(p, l)
		return true
	}
	return false
}

// fairAnswer is what an audit finds: each lie, if everything is shown.
func (f *fair) fairAnswer(p int, a WorkAudit) ReportAudited {
	r := ReportAudited{Ref: a.Draft.Ref, Record: a.Record}
	shows := func(q, to int) bool {
		switch {
		case q == to:
			return true
		case q == f.liar.at:
			return f.heard && f.dark>>to&1 == 0
		}
		return !f.peers[q].dead
	}
	for _, o := range a.Draft.Contributions {
		q := slices.Index(f.ids, o.Peer)
		if !shows(q, p) {
			r.Unshown = append(r.Unshown, o.Peer)
		}
	}
	if len(r.Unshown) == 0 {
		for _, s := range f.liesOf(a) {
			r.False = append(r.False, FalseSegment{Segment: s, Proof: proofOf(a.Draft.Segments[s].Root)})
		}
	}
	return r
}

// segmentsOf lists the bytes that a job takes.
func segmentsOf(job Work) []slot.Segment {
	switch j := job.(type) {
	case WorkHold:
		return j.Draft.Segments
	case WorkApply:
		return j.Record.Segments
	}
	return nil
}

// lost lists what nobody has.
func (f *fair) lost(job Work) (missing []slot.Range) {
	for _, s := range segmentsOf(job) {
		if f.heard && f.liar.serves(s.Root) {
			continue
		}
		if !slices.ContainsFunc(f.peers, func(l local) bool { return !l.dead && l.disk.segments[s.Root] }) {
			missing = append(missing, s.Range)
		}
	}
	return missing
}

func (f *fair) has(job Work) bool { return len(f.lost(job)) == 0 }

// checkGoesOn checks that what liars and the dead have done does not stop the height.
func (x *explorer) checkGoesOn(w *world, i int) {
	heard, dark := i%2 == 0, uint(1<<len(x.ids)-1)
	if i%4 == 2 { // it hides from one elector alone
		others := x.honest(w)
		dark = 1 << others[i/4%len(others)]
	}
	terms, ok := x.goesOn(w, heard, dark, longestFair)
	x.slowest = max(x.slowest, terms)
	x.continued++
	if !ok || terms > x.terms+mostTerms {
		x.fail(w, fmt.Sprintf("Ic: the slot is not decided, in term %d, while the liar is heard: %v, and hides from %b",
			terms, heard, dark))
	}
}

// mostTerms is how many terms a height may take after those of the explored worlds, and longestFair
// how long the slot may.
const (
	mostTerms   = 3
	longestFair = 2 * time.Minute
)

// visited follows one of some worlds to its end.
func (x *explorer) visited(w *world) {
	if x.continueOne > 0 && x.worlds%x.continueOne == 0 && x.fault == "" {
		x.checkGoesOn(w, x.worlds/x.continueOne)
	}
}

// wander follows random schedules from a world, each up to a number of steps, until so many worlds
// were visited. What happens next is drawn by its kind first: lies are many.
func (x *explorer) wander(start *world, r *rand.Rand, steps, worlds int) {
	for x.worlds < worlds && x.fault == "" {
		w := start
		for range steps {
			kinds := map[string][]option{}
			add := func(kind string) func(int, input, func() string) {
				return func(p int, in input, by func() string) { kinds[kind] = append(kinds[kind], option{p, in, by}) }
			}
			x.ownOptions(w, add("own"))
			x.honestOptions(w, add("honest"))
			for p, id := range w.peers {
				if x.locals[id].m != nil {
					x.tryLies(w, p, add("lie"))
				}
			}
			of := kinds[[]string{"own", "own", "honest", "honest", "lie"}[r.IntN(5)]]
			if len(of) == 0 {
				continue
			}
			o := of[r.IntN(len(of))]
			next := x.follow(w, o.p, o.in, o.by)
			if next == nil {
				continue
			}
			w = next
			x.worlds++
			x.visited(w)
			x.certifiable += btoi(slices.ContainsFunc(x.featuresOf(w), func(f string) bool { return f[:2] == "QC" }))
			if x.decided(w) {
				x.decisions++
				break
			}
		}
	}
}
