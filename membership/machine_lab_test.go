package membership

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk/powerfs"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// The lab runs several machines over a network, disks and workers made of maps, in virtual time.
// Everything is in order and without chance, so a script's output is the same each time. After
// every input the watcher checks I1, I2, I5 and I6.

var labTiming = Timing{
	Alive: 500 * time.Millisecond, Beat: 250 * time.Millisecond, Patience: time.Second, Lost: 1600 * time.Millisecond,
	Gone:     300 * time.Millisecond,
	MinGrace: 400 * time.Millisecond, GraceFactor: 2, Straggler: 3 * time.Second, FoundAfter: time.Second,
	Linger: 10 * time.Second, Retry: 500 * time.Millisecond,
}

const (
	labElements = 64
	labLatency  = 10 * time.Millisecond
	labTraining = 100 * time.Millisecond
	labWorkTime = 20 * time.Millisecond
)

func labRules() chain.Rules {
	return chain.Rules{Run: slot.Hash([]byte("lab")), MinPeers: 1, MaxWeight: 100, Fragments: []uint64{labElements}}
}

// labFragments are the sizes of n fragments: another one for each, so that none is taken for
// another.
func labFragments(n int) []uint64 {
	sizes := make([]uint64, n)
	for p := range sizes {
		sizes[p] = labElements - uint64(p)
	}
	return sizes
}

// labPlanner gives each contributor an equal piece, and those of peers that are gone to the living
// in equal parts.
func labPlanner(plan slot.Plan, links slot.Links) (ps []slot.Piece, ring []uint16) {
	owners := slices.DeleteFunc(livingOf(plan), func(p slot.PeerID) bool {
		i := plan.Place(p)
		return i < len(links.NoOwner) && links.NoOwner[i]
	})
	split := func(r slot.Range) {
		n := uint64(len(owners))
		for i, o := range owners {
			part := slot.Range{Begin: r.Begin + uint64(i)*r.Len()/n, End: r.Begin + uint64(i+1)*r.Len()/n}
			if part.Len() > 0 {
				ps = append(ps, slot.Piece{Range: part, Owner: o})
			}
		}
	}
	if len(plan.Pieces) == 0 {
		split(slot.Range{End: labElements - uint64(plan.Fragment)})
	}
	for _, p := range plan.Pieces {
		if slices.Contains(owners, p.Owner) {
			ps = append(ps, p)
		} else {
			split(p.Range)
		}
	}
	return ps, plan.Ring
}

// plan is labPlanner's, with rings of new groups where the lab's run has them.
func (l *lab) plan(plan slot.Plan, links slot.Links) (ps []slot.Piece, ring []uint16) {
	if l.planner != nil {
		return l.planner(plan, links)
	}
	if l.rules.Rings && len(plan.Pieces) == 0 && len(plan.Offers) > 1 && !links.NoRing {
		for i := range plan.Offers {
			plan.Ring = append(plan.Ring, uint16(i))
		}
	}
	return labPlanner(plan, links)
}

// labSign is a signature that only its signer makes in the lab, as long as a real one.
func labSign(p slot.PeerID, data []byte) []byte {
	h := slot.Hash(append([]byte(p+"|"), data...))
	return append(h[:], h[:]...)
}

func labVerify(p slot.PeerID, data, sig []byte) bool { return string(labSign(p, data)) == string(sig) }

// fataler is what tests of both kinds have.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// lab is the world.
type lab struct {
	t        fataler
	rules    chain.Rules
	timing   Timing
	now      time.Duration
	seq      int
	queue    labQueue
	peers    []*labPeer
	manual   bool // messages wait in held for the script to deliver
	held     []labMessage
	filters  []*labFilter
	watch    *watcher
	delays   func() []time.Duration // of a message's copies; nil: one, after labLatency
	log      []string
	large    map[string]int // COMMITs by sender, which are too large for gossip then
	exact    bool           // statements are compared
	open     bool           // anybody may come
	seeded   bool           // all peers make the same initial state
	pins     map[string]slot.Root
	slow     *slowLink      // nil: none
	reducing time.Duration  // how long a group takes, whoever leads it; 0: labWorkTime
	planner  Planner        // nil: labPlanner
	heard    []wire.Message // of late, by anybody who listens; for liars to say again
	audits   *labAudits
	keep     func(wire.Entry) bool // nil: the disks keep all, but for those of single peers
}

type labEvent struct {
	at  time.Duration
	seq int
	do  func()
}

type labMessage struct {
	to    *labPeer
	msg   wire.Message
	heard func(error) // takes in what an honest peer makes of a lie
}

// labFilter drops or holds messages; empty fields match all.
type labFilter struct {
	from, to, kind string
	left           int // matches until it is used up; below 0 for ever
	hold           bool
}

// labState is a model state: its root, and the record it is the state after.
type labState struct{ root, record slot.Root }

// labPeer is one process and its disk.
type labPeer struct {
	lab   *lab
	name  string
	id    slot.PeerID
	inc   slot.Incarnation
	store *memoryStore
	began map[slot.Root]time.Duration // of groups, for lab.reducing
	m     *Machine                    // nil while down
	life  int                         // counts starts; what an earlier one scheduled is void

	trains   bool
	training uint64 // slot that is trained for
	moves    uint64 // the branch that it is trained for, counted
	slowness time.Duration
	weight   uint64 // of its contributions; 0: 10
	broken   bool   // cannot reduce: others' reports name it
	stuck    bool   // states nothing
	excused  map[slot.Root]slot.Bitmap
	crowds   bool                // states as many newcomers as its plan has
	mute     bool                // passes nothing on in a ring
	usurps   bool                // lists itself alone in what it drafts
	curt     bool                // sends every COMMIT by hash, whoever asks
	trickle  uint64              // bytes that have come here, a few with each tick; 0: none do
	gone     bool                // does not come back
	unfed    bool                // gets no reduced bytes from others
	segments map[slot.Root]bool  // reduced bytes, on disk
	states   map[uint64]labState // model states by height, on disk; the newest is the one held
	keys     labKeys             // on disk
	wants    []slot.Motion       // of its operator; on disk
	follows  []slot.PeerID
	never    bool                  // from its next start it founds nothing
	keep     func(wire.Entry) bool // nil: the disk keeps all
	ahead    time.Duration         // its clock is, of the others'
	lies     *labLiar              // nil: it is honest
	auditor  labAuditor
}

// clock is the time that this peer's machine is told.
func (p *labPeer) clock() time.Duration { return p.lab.now + p.ahead }

func newLab(t fataler, rules chain.Rules, timing Timing) *lab {
	audits := newLabAudits()
	rules.CheckProof = audits
	return &lab{t: t, rules: rules, timing: timing, watch: newWatcher(), audits: audits}
}

// shuffle makes the run another one, in which the order of leaders falls out otherwise.
func (l *lab) shuffle(salt int) {
	if salt > 0 {
		l.rules.Run = slot.Hash(fmt.Appendf(nil, "lab %d", salt))
	}
}

// changeRules makes a machine's chain one of other rules, with the same records.
func changeRules(m *Machine, change func(*chain.Rules)) {
	rules := m.chain.Rules()
	change(&rules)
	c := chain.New(rules, m.chain.Pin())
	for _, commit := range m.chain.Commits() {
		c.Push(commit)
	}
	m.chain = c
}

func labID(name string) slot.PeerID { return slot.PeerID("peer-" + name) }

func labName(p slot.PeerID) string { return strings.TrimPrefix(string(p), "peer-") }

func labNames(ps []slot.PeerID) string {
	names := make([]string, len(ps))
	for i, p := range ps {
		names[i] = labName(p)
	}
	return strings.Join(names, "")
}

// add makes a peer with an empty disk, and starts it.
func (l *lab) add(name string) *labPeer {
	p := &labPeer{lab: l, name: name, id: labID(name), trains: true}
	l.peers = append(l.peers, p)
	p.format()
	p.start()
	return p
}

// adds makes a peer of each letter, and connects all.
func (l *lab) adds(names string) {
	for _, n := range names {
		l.add(string(n))
	}
	l.connect()
}

// connectedLab is a lab with a peer of each letter.
func connectedLab(t fataler, rules chain.Rules, timing Timing, names string) *lab {
	l := newLab(t, rules, timing)
	l.adds(names)
	return l
}

// train has peers begin to contribute, or stop.
func train(contribute bool, ps ...*labPeer) {
	for _, p := range ps {
		p.trains = contribute
		p.report(ReportContributes{Contributes: contribute})
	}
}

// leader is the leader of ballot 0 at the open height.
func (l *lab) leader() *labPeer { return l.peer(labName(l.peers[0].m.open.leader(0).Peer)) }

// format empties the disk: the vote log goes, and the incarnation with it.
func (p *labPeer) format() {
	p.inc = slot.Incarnation(slot.Hash(fmt.Appendf(nil, "%s %d", p.name, p.life))[0])<<8 + slot.Incarnation(p.life)
	p.store = newMemoryStore(p.lab.rules.Run, p.inc)
	p.segments, p.states, p.wants = map[slot.Root]bool{}, map[uint64]labState{}, nil
}

// start runs the process on what the disk has.
func (p *labPeer) start() {
	p.crash()
	p.life++
	p.training = 0
	saved, err := p.store.Load()
	if err != nil {
		p.lab.t.Fatal(err)
	}
	p.lab.watch.loaded(p, recordsOf(p.store))
	p.m = machineOn(Config{
		Self: p.id, Incarnation: p.inc, Rules: p.lab.rules, Timing: p.lab.timing, Plan: p.lab.plan, Verify: labVerify,
		Pin: p.lab.pins[p.name], Open: p.lab.open, Follow: p.follows, NeverFounds: p.never,
	}, saved, p.store)
	p.m.now = p.clock()
	for _, a := range p.m.presence.known {
		// the lab has one clock for all; a driver's starts at 0 with its machine
		a.heard = p.clock()
	}
	p.m.founder.since = p.clock()
	if h, s, ok := p.state(); ok {
		p.report(ReportApplied{Height: h, StateRoot: s.root, Record: s.record})
	}
	p.report(ReportContributes{Contributes: p.trains})
	p.report(ReportMotions{p.wants})
	p.makeKey()
	p.tickLater(0)
}

// crash stops the process. What was not saved is gone.
func (p *labPeer) crash() {
	if p.m != nil {
		p.m = nil
		p.life++
		p.store = p.store.Restart()
	}
}

// cutPower ends the power at the n-th thing from now that the peer does to its disk. The seed says
// what becomes of the bytes that were written and not synced (powerfs).
func (p *labPeer) cutPower(n int, at powerfs.Cut, seed uint64) {
	p.store.unsynced = seed
	p.store.fs.CutAt(p.store.fs.Ops()+n, at)
}

// up says whether the process runs. One whose power is gone says and does nothing more.
func (p *labPeer) up() bool { return p.m != nil && !p.store.fs.Down() }

// state is the newest model state on disk.
func (p *labPeer) state() (height uint64, s labState, ok bool) {
	for h, it := range p.states {
		if !ok || h > height {
			height, s, ok = h, it, true
		}
	}
	return height, s, ok
}

// later schedules do for this life of the peer.
func (p *labPeer) later(after time.Duration, do func()) {
	life := p.life
	p.lab.at(p.lab.now+after, func() {
		if p.life == life && p.up() {
			do()
		}
	})
}

func (l *lab) at(at time.Duration, do func()) {
	l.seq++
	heap.Push(&l.queue, labEvent{at, l.seq, do})
}

func (p *labPeer) tickLater(after time.Duration) {
	p.later(after, func() {
		if !p.lab.manual {
			p.m.Tick(p.clock())
			p.flush()
			p.train()
			if p.trickle > 0 {
				p.trickle++
				p.report(ReportProgress{Bytes: p.trickle})
			}
			if p.m.own.left && p.gone {
				p.crash() // its process ends
				return
			}
		}
		p.tickLater(p.lab.timing.Beat / 2)
	})
}

// run lets virtual time pass until done says so or the limit is over.
func (l *lab) run(limit time.Duration, done func() bool) bool {
	end := l.now + limit
	for !done() {
		if len(l.queue) == 0 || l.queue[0].at > end {
			l.now = end
			return done()
		}
		e := heap.Pop(&l.queue).(labEvent)
		l.now = max(l.now, e.at)
		e.do()
	}
	return true
}

// awaits lets a minute pass at most, until something holds.
func (l *lab) awaits(t fataler, what string, holds func() bool) {
	t.Helper()
	l.within(t, time.Minute, what, holds)
}

// within lets some time pass at most, until something holds.
func (l *lab) within(t fataler, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	if !l.run(limit, holds) {
		t.Fatalf("not in time: %s\n%s\n%s", what, strings.Join(l.log[max(0, len(l.log)-30):], "\n"), l.show())
	}
}

// rests lets time pass.
func (l *lab) rests(d time.Duration) { l.run(d, func() bool { return false }) }

// labQueue is a heap of what is to happen: by time, then in the order in which it was put there.
type labQueue []labEvent

func (q labQueue) Len() int { return len(q) }

func (q labQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), cmp.Compare(q[i].seq, q[j].seq)) < 0
}

func (q labQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *labQueue) Push(e any) { *q = append(*q, e.(labEvent)) }

func (q *labQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = labEvent{}
	*q = (*q)[:last]
	return e
}

func (p *labPeer) report(r Report) {
	if p.up() {
		p.m.Report(p.clock(), r)
		p.flush()
	}
}

// step hands over a message; a refusal is returned.
func (p *labPeer) step(msg wire.Message) error {
	if !p.up() {
		return nil
	}
	if err := p.lab.audits.reads(msg.Body); err != nil {
		return err
	}
	if err := wire.CheckProofs(msg.Body, p.lab.rules.Run, labVerify); err != nil {
		return err
	}
	err := p.m.Step(p.clock(), msg)
	p.flush()
	return err
}

// flush does what a driver does: disk, then network, work and events; what is for the peer itself
// comes back at once.
func (p *labPeer) flush() {
	// an owner in the lab reduces to other bytes in each plan, so that different records are
	// proposed
	if !p.lab.exact {
		maps.DeleteFunc(p.m.evidence.claims, func(s claim, _ wire.Message) bool { return s.kind == slot.TypeSegment })
	}
	for {
		r := p.m.Ready()
		if p.lies == nil {
			p.lab.watch.persisted(p, r.Persist)
		}
		switch err := p.store.Save(p.kept(r.Persist)); {
		case errors.Is(err, powerfs.ErrPowerCut):
			p.lab.log = append(p.lab.log, p.name+" loses power")
			return
		case err != nil:
			p.lab.t.Fatalf("%s: %v", p.name, err)
		}
		var own []wire.Message
		for _, e := range r.Send {
			own = append(own, p.send(e)...)
		}
		for _, w := range r.Work {
			p.do(w)
		}
		for _, e := range r.Events {
			// other events say what a record brought; those would double it
			if !strings.HasPrefix(string(e.Kind), "record.") {
				p.lab.log = append(p.lab.log, p.name+" "+labEventText(e))
			}
		}
		for _, msg := range own {
			_ = p.m.Step(p.clock(), msg) // a refusal of one's own message is part of the protocol
		}
		if len(own) == 0 {
			return
		}
	}
}

func (p *labPeer) kept(entries []wire.Entry) []wire.Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e wire.Entry) bool {
		return p.keep != nil && !p.keep(e) || p.lab.keep != nil && !p.lab.keep(e)
	})
}

func (p *labPeer) send(e wire.Envelope) (own []wire.Message) {
	if d, ok := e.Body.(wire.Draft); ok && p.usurps {
		e.Body, e.To, e.BriefTo = p.usurped(d), append(e.To, e.BriefTo...), nil
	}
	msg := labSigned(p, e.Body)
	if p.lies == nil {
		p.lab.watch.sent(p, msg)
	}
	p.lab.overheard(msg)
	p.lies.besides(e.Body)
	if _, commit := e.Body.(wire.Commit); commit && p.lab.large != nil {
		p.lab.large[p.name] += len(without(e.To, p.id)) + len(e.BriefTo)
		e.Gossip = false
	}
	if c, ok := e.Body.(wire.Commit); ok && p.curt {
		e.Gossip, e.Brief = false, wire.Commit{Certificate: c.Certificate}
		e.BriefTo = append(without(e.To, p.id), e.BriefTo...)
		e.To, _ = split(e.To, func(q slot.PeerID) bool { return q == p.id })
	}
	for _, q := range p.lab.peers {
		switch direct := slices.Contains(e.To, q.id); {
		case direct && q == p:
			own = append(own, msg)
		case slices.Contains(e.BriefTo, q.id) && !p.lies.withholds(msg, q):
			brief := msg
			brief.Body = e.Brief
			p.lab.route(labMessage{to: q, msg: brief})
		case (direct || e.Gossip) && q != p && !p.lies.withholds(msg, q):
			p.lab.route(labMessage{to: q, msg: msg})
		}
	}
	return own
}

// usurped is a draft by which its leader would go on alone.
func (p *labPeer) usurped(d wire.Draft) wire.Draft {
	self, _ := chain.FindMember(d.Record.Members, p.id, p.inc)
	d.Record = p.m.chain.Settle(d.Record, chain.Turnover{Listed: []slot.Member{self}})
	d.Hash = d.Record.Hash()
	if lead := p.m.open.lead; lead != nil { // it has not resigned since
		lead.draft = &d
		p.m.pledges.open.Have = &wire.EntryHave{Ref: d.Ref, Drafted: d.Drafted}
	}
	return d
}

func (l *lab) route(m labMessage) {
	kind := strings.ToLower(wire.TypeName(m.msg.Body.Type()))
	for _, f := range l.filters {
		if f.left != 0 && f.matches(labName(m.msg.From), m.to.name, kind) {
			f.left--
			if f.hold {
				l.held = append(l.held, m)
			}
			return
		}
	}
	if l.manual {
		l.held = append(l.held, m)
		return
	}
	delays := []time.Duration{labLatency}
	if l.delays != nil {
		delays = l.delays()
	}
	if l.slow != nil && m.to.name == l.slow.to && kind == "commit" {
		wait, fits := l.slow.queue(l.now)
		if !fits {
			return
		}
		delays = []time.Duration{labLatency + wait}
	}
	for _, d := range delays {
		l.at(l.now+d, func() {
			if err := m.to.step(m.msg); m.heard != nil && m.to.up() && m.to.lies == nil {
				m.heard(err)
			}
		})
	}
}

func (f *labFilter) matches(from, to, kind string) bool {
	ok := func(want, is string) bool { return want == "" || slices.Contains(strings.Split(want, ","), is) }
	return ok(f.from, from) && ok(f.to, to) && ok(f.kind, kind)
}

// reaches says whether two peers' data planes meet: a filter for all kinds cuts them too.
func (l *lab) reaches(a, b *labPeer) bool {
	cut := func(x, y *labPeer) bool {
		return slices.ContainsFunc(l.filters,
			func(f *labFilter) bool { return f.left != 0 && f.kind == "" && f.matches(x.name, y.name, "") })
	}
	return a.up() && b.up() && !cut(a, b) && !cut(b, a)
}

func labEventText(e Event) string {
	s := fmt.Sprintf("%s height=%d slot=%d", e.Kind, e.Height, e.Slot)
	if e.Kind == EventPlanned || e.Kind == EventCommitted {
		s += fmt.Sprintf(" ballot=%d", e.Ballot)
	}
	if e.Members != nil {
		s += " members=" + labNames(e.Members)
	}
	if e.Contributors != nil {
		s += " contributors=" + labNames(e.Contributors)
	}
	if e.Peer != "" && e.Kind != EventPlanned { // a plan's leader follows from its ballot
		s += " peer=" + labName(e.Peer)
	}
	if says := cmp.Or(e.Detail, string(e.Reason)); says != "" && e.Kind != EventSwitched {
		s += " (" + says + ")"
	}
	return s
}
