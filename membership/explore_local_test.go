package membership

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// local is one peer in the explorer: the real machine, and the disk that outlives it. Locals are
// never changed once made.
type local struct {
	m    *Machine // nil while down
	dead bool
	disk localDisk
	jobs []Work // what the worker was asked for and may do at any time: at most one of a kind

	// Ghosts, for the checks: the highest ballot promised or voted in at the open place, as others
	// were told.
	floorAt wire.Position
	floor   uint32
	// records that its audits have passed, and a set of places: whose contributions it got nothing
	// of
	passed map[slot.Root]bool
	dark   uint
}

// localDisk is what survives a crash. Its contents are shared between locals and replaced, never
// changed.
type localDisk struct {
	saved    wire.Saved
	chain    heldRecords
	segments map[slot.Root]bool
	height   uint64 // of the model state
	root     slot.Root
}

// input is what may happen to one peer.
type input struct {
	kind inputKind
	arg  int // parcel, job or peer
}

type inputKind uint8

const (
	inParcel inputKind = iota
	inCrash
	inRestart
	inDie
	inOver
	inUnheard // the peer arg is taken for lost
	inJob
	inAudit // the job that arg tells, with the answer that it tells
)

// effect is the outcome of an input: what comes of the peer, and what it sent.
type effect struct {
	next  int // local
	sent  []int
	fault string
}

// copyMachine is a deep copy as far as a machine ever changes things; records, plans and messages
// are values once made.
func copyMachine(m *Machine) *Machine {
	f, e := *m.facts, *m.effects
	f.chain = m.chain.UpTo(m.chain.Height())
	c := assemble(&f, &e)
	copyOwn(c, m)
	from := partsOf(m)
	for i, part := range partsOf(c) {
		copyOwn(part, from[i])
	}
	d := *m.open
	d.outcomes, d.promised, d.ahead = maps.Clone(d.outcomes), maps.Clone(d.promised), maps.Clone(d.ahead)
	// here an owner reduces otherwise in each ballot: what is proposed shall differ
	c.evidence.claims, c.evidence.claimsBy = map[claim]wire.Message{}, map[memberKey]int{}
	d.groupReports.stated, d.groupReports.lost = slices.Clone(d.groupReports.stated), slices.Clone(d.groupReports.lost)
	if d.lead != nil {
		l := *d.lead
		l.segments, l.reports = maps.Clone(l.segments), slices.Clone(l.reports)
		l.excluded, l.banned, l.statesTooFew = maps.Clone(l.excluded), maps.Clone(l.banned), maps.Clone(l.statesTooFew)
		l.votes, l.given = maps.Clone(l.votes), maps.Clone(l.given)
		for r, haves := range l.given {
			l.given[r] = maps.Clone(haves)
		}
		if l.draft != nil {
			l.gather(l.draft.Hash)
		}
		d.lead = &l
	}
	c.open = &d
	c.pledges.kept, c.catchup.early = maps.Clone(m.pledges.kept), slices.Clone(m.catchup.early)
	c.presence.known = make(map[memberKey]*contact, len(m.presence.known))
	for w, a := range m.presence.known {
		b := *a
		c.presence.known[w] = &b
	}
	c.presence.connected = maps.Clone(m.presence.connected)
	copyAudits(c, m)
	c.proofs.known = make(map[slot.PeerID][]provenOffer, len(m.proofs.known))
	for p, offers := range m.proofs.known {
		c.proofs.known[p] = slices.Clone(offers)
	}
	return c
}

// partsOf lists the parts of a machine, the pointers that it and its groups of parts hold.
func partsOf(m *Machine) []any { return partsIn(reflect.ValueOf(m).Elem()) }

func partsIn(v reflect.Value) (parts []any) {
	for i := range v.NumField() {
		switch t := v.Field(i).Type(); {
		case isPart(t):
			parts = append(parts, reflect.NewAt(t, v.Field(i).Addr().UnsafePointer()).Elem().Interface())
		case isGroup(t):
			parts = append(parts, partsIn(v.Field(i))...)
		}
	}
	return parts
}

// isGroup says whether a type is a group of parts.
func isGroup(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[peers](), reflect.TypeFor[memberRules](), reflect.TypeFor[branches](),
		reflect.TypeFor[decision]():
		return true
	}
	return false
}

// knownParts remembers what isPart found: reflection takes long, and is asked for each copy.
var knownParts sync.Map

// isPart says whether a type is a pointer to a part of the machine.
func isPart(t reflect.Type) bool {
	known, ok := knownParts.Load(t)
	if !ok {
		known, _ = knownParts.LoadOrStore(t, looksLikePart(t))
	}
	return known.(bool)
}

func looksLikePart(t reflect.Type) bool {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || t == reflect.TypeFor[*Machine]() {
		return false
	}
	f, ok := t.Elem().FieldByName("facts")
	return ok && f.Type == reflect.TypeFor[*facts]()
}

// isShared says whether a type is a pointer to what all parts of a machine have in common.
func isShared(t reflect.Type) bool {
	return t == reflect.TypeFor[*facts]() || t == reflect.TypeFor[*effects]() || t == reflect.TypeFor[*height]()
}

// copyOwn copies the fields of a struct but for those that lead to other parts.
func copyOwn(to, from any) {
	dst, src := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for i := range dst.NumField() {
		switch t := dst.Type().Field(i).Type; {
		case isPart(t), isShared(t), isGroup(t):
		default:
			reflect.NewAt(t, dst.Field(i).Addr().UnsafePointer()).Elem().
				Set(reflect.NewAt(t, src.Field(i).Addr().UnsafePointer()).Elem())
		}
	}
}

// fingerprint hashes everything reachable from v by value: two locals of one fingerprint are the
// same.
func fingerprint(v any) uint64 {
	b := appendValue(nil, reflect.ValueOf(v))
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}

func appendValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(b, 'n')
		}
		if v.Type() == reflect.TypeFor[*chain.Chain]() { // the tip names all records below it
			index := v.Elem().FieldByName("index")
			return appendValue(b, index.Index(index.Len()-1).FieldByName("hash"))
		}
		return appendValue(fmt.Append(append(b, 'p'), v.Elem().Type().String()), v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if t := v.Field(i).Type(); v.Type() != reflect.TypeFor[Machine]() && !isGroup(v.Type()) &&
				(isPart(t) || isShared(t)) {
				if v.Type() == reflect.TypeFor[audits]() && v.Field(i).Type() == reflect.TypeFor[*hiders]() {
					b = appendValue(b, v.Field(i).Elem().FieldByName("of"))
				}
				continue // the machine has it, too
			}
			b = appendValue(b, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		if v.Type() == reflect.TypeFor[heldRecords]() {
			if v.Len() > 0 {
				// it names the records below it
				b = appendValue(b, v.Index(v.Len()-1).FieldByName("Record"))
			}
			return append(b, byte(v.Len()))
		}
		b = append(b, byte(v.Len()), 's')
		for i := range v.Len() {
			b = appendValue(b, v.Index(i))
		}
	case reflect.Map:
		if v.Type() == reflect.TypeFor[map[claim]wire.Message]() || v.Type() == reflect.TypeFor[map[memberKey]int]() {
			return b // remembered to find contradictions, of which the explorer's peers have none
		}
		var entries []string
		for it := v.MapRange(); it.Next(); {
			entries = append(entries, string(appendValue(appendValue(nil, it.Key()), it.Value())))
		}
		slices.Sort(entries)
		b = append(b, byte(len(entries)), 'm')
		for _, e := range entries {
			b = append(b, e...)
		}
	case reflect.String:
		b = append(append(b, v.String()...), 0)
	case reflect.Bool:
		b = strconv.AppendBool(b, v.Bool())
	case reflect.Float64:
		b = fmt.Append(b, math.Float64bits(v.Float()))
	case reflect.Func:
	default:
		if v.CanInt() {
			b = appendUint(b, uint64(v.Int()))
		} else {
			b = appendUint(b, v.Uint())
		}
	}
	return b
}

func appendUint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// run puts an input into a copy of a peer, and takes out what it leads to within this peer.
func (x *explorer) run(p int, l local, in input) (local, []parcel, string) {
	switch in.kind {
	case inDie:
		return local{dead: true}, nil, ""
	case inCrash:
		return local{disk: x.crashed(l.disk), floorAt: l.floorAt, floor: l.floor, passed: l.passed}, nil, ""
	case inRestart:
		return x.restart(p, l)
	}
	l.m = copyMachine(l.m)
	switch in.kind {
	case inParcel:
		msg := x.parcels[in.arg].msg
		x.step(l.m, msg)
	case inOver:
		l.m.pacemaker.next()
	case inUnheard:
		for w, a := range l.m.presence.known {
			if w.peer == x.ids[in.arg] {
				a.heard = never
			}
		}
		l.m.settle()
	case inJob:
		x.work(p, &l, l.jobs[in.arg])
	case inAudit:
		x.audit(&l, in.arg)
	}
	return x.drain(p, l)
}

// step hands a message to a machine, one that lacks a rule if a fault is planted.
func (x *explorer) step(m *Machine, msg wire.Message) {
	if x.plant.before != nil {
		msg = x.plant.before(x, m, msg)
	}
	err := m.Step(m.now, msg)
	if x.plant.after != nil {
		x.plant.after(m, msg, err)
	}
	if _, joins := msg.Body.(wire.Join); joins {
		if a := m.presence.known[memberKey{msg.From, msg.Incarnation}]; a != nil { // its ALIVE
			tip := m.chain.Tip()
			a.alive = &wire.Alive{
				Branch: m.chain.Branch(), Height: tip.Height, Tip: m.chain.TipHash(), Work: tip.Work,
				Applied: tip.Height,
				Synced:  true, Slot: tip.Slot, Contributes: true,
			}
		}
	}
	if x.audits == nil { // without them a draft seems to be a leader's free choice
		x.liar.forgetGrounds(m)
	}
}

// restart makes a machine from the disk alone. Time stands still, and nobody is taken for lost.
func (x *explorer) restart(p int, l local) (local, []parcel, string) {
	l.disk.saved.Boot++
	l.m = machineOn(x.config(p), l.disk.saved, l.disk.chain)
	l.m.now, l.m.announcer.aliveAt = x.now, x.now
	for _, a := range l.m.presence.known {
		a.heard = x.now
	}
	l.m.Report(x.now, ReportApplied{Height: l.disk.height, StateRoot: l.disk.root})
	l.m.Report(x.now, ReportContributes{Contributes: true})
	if l.m.roster.wantsIn() {
		l.m.gossip(wire.Join{}) // as the next Tick would
	}
	return x.drain(p, l)
}

// drain carries out Ready until there is nothing left: disk, own messages, reductions at once;
// other work later.
func (x *explorer) drain(p int, l local) (local, []parcel, string) {
	var sent []parcel
	for {
		x.contribute(l)
		r := l.m.Ready()
		if len(r.Persist)+len(r.Send)+len(r.Work) == 0 {
			break
		}
		for _, e := range r.Persist {
			if x.plant.keep == nil || x.plant.keep(e) {
				l.disk.fold(e)
			}
		}
		var own []wire.Message
		for _, e := range r.Send {
			msg := wire.Message{From: x.ids[p], Incarnation: x.incs[p], Body: e.Body}
			msg.Sig = labSign(msg.From, slot.SignedBytes(e.Body.Type(), x.rules.Run, msg.From, msg.Incarnation,
				e.Body.Append(nil)))
			if fault := l.ghosts(msg); fault != "" {
				return l, nil, fault
			}
			switch e.Body.(type) {
			case wire.Have, wire.Vote, wire.Promise, wire.Commit:
				sent = append(sent, parcel{to: -1, msg: msg})
			}
			for q, id := range x.ids {
				switch direct := slices.Contains(e.To, id); {
				case q == p && direct:
					own = append(own, msg)
				case slices.Contains(e.BriefTo, id):
					sent = append(sent, parcel{to: q, msg: inBrief(e, msg)})
				case q != p && (direct || e.Gossip):
					sent = append(sent, parcel{to: q, msg: msg})
				}
			}
		}
		for _, w := range r.Work {
			if a, ok := w.(WorkApply); ok && !certifiedOn(l.disk, a.Record) {
				return l, nil, fmt.Sprintf("I5: height %d is applied and not certified on disk", a.Record.Height)
			}
			if reduce, ok := w.(WorkReduce); ok {
				x.reduce(p, &l, reduce.Plan)
				continue
			}
			x.addJob(&l, w)
		}
		for _, msg := range own {
			x.step(l.m, msg)
		}
	}
	return l, sent, x.wrongs(l)
}

// addJob keeps the newest job of a kind: of audits, the newest of a record.
func (x *explorer) addJob(l *local, w Work) {
	audit, isAudit := w.(WorkAudit)
	if _, hold := w.(WorkHold); hold && x.audits != nil && x.audits.atHand {
		x.work(0, l, w)
		return
	}
	l.jobs = append(slices.DeleteFunc(slices.Clone(l.jobs), func(o Work) bool {
		if old, ok := o.(WorkAudit); ok && isAudit {
			return old.Record == audit.Record
		}
		return reflect.TypeOf(o) == reflect.TypeOf(w)
	}), w)
}

// inBrief is a message as peers get it that hold a part of it. A draft stays whole: its leader
// repeats it so, and here it may come before the plan, as never on one stream.
func inBrief(e wire.Envelope, msg wire.Message) wire.Message {
	if _, commit := e.Brief.(wire.Commit); commit {
		msg.Body = e.Brief
	}
	return msg
}

// ghosts checks a message against what this incarnation told others at the same place (I6).
func (l *local) ghosts(msg wire.Message) string {
	var ref slot.Ref
	switch b := msg.Body.(type) {
	case wire.Vote:
		ref = b.Ref
		if at := (wire.Position{Height: ref.Height, Prev: ref.Prev}); at == l.floorAt && ref.Ballot < l.floor {
			return fmt.Sprintf("I6: %s votes in ballot %d below its word %d", labName(msg.From), ref.Ballot, l.floor)
		}
	case wire.Have:
		ref = b.Ref
		if at := (wire.Position{Height: ref.Height, Prev: ref.Prev}); at == l.floorAt && ref.Ballot < l.floor {
			return fmt.Sprintf("I6: %s gives HAVE in ballot %d below its word %d", labName(msg.From), ref.Ballot,
				l.floor)
		}
	case wire.Promise:
		ref = b.Ref
	default:
		return ""
	}
	if at := (wire.Position{Height: ref.Height, Prev: ref.Prev}); at != l.floorAt {
		l.floorAt, l.floor = at, 0
	}
	l.floor = max(l.floor, ref.Ballot)
	return ""
}

// contribute offers once a slot, as the node would.
func (x *explorer) contribute(l local) {
	v, s := l.m.View(), l.m.chain.OpenSlot()
	if v.IsMember && v.Synced && v.Applied == v.Tip.Height && v.OwnOffer == nil && s <= x.slots {
		l.m.Report(x.now, ReportOffer{Slot: s, Base: s - 1, Weight: 1, Root: slot.Hash([]byte(l.m.cfg.Self))})
	}
}

func certifiedOn(d localDisk, r slot.Record) bool {
	return uint64(len(d.chain)) >= r.Height && d.chain[r.Height-1].Record.Hash() == r.Hash()
}

// fold is the store: the newest promise and vote at the open height.
func (d *localDisk) fold(e wire.Entry) {
	s := &d.saved
	switch e := e.(type) {
	case wire.EntryPromise:
		s.Promise = &e
	case wire.EntryHave:
		s.Have = &e
	case wire.EntryVote:
		s.Vote = &e
	case wire.EntryOffer:
		s.OfferSeq = max(s.OfferSeq, e.Seq)
	case wire.EntryCommit:
		d.chain = append(slices.Clip(d.chain), wire.Commit(e))
		s.Height, s.Tip = e.Record.Height, e.Record.Hash()
		s.Pledge = wire.Pledge{}
	}
}

// crashed is what a crash leaves of a disk.
func (x *explorer) crashed(d localDisk) localDisk {
	if x.plant.loseOutcomes {
		d.segments = nil
	}
	return d
}

// reduce lets an owner reduce its pieces at once: from all of the group that are not gone. A piece
// that it has done is done.
func (x *explorer) reduce(p int, l *local, plan slot.Plan) {
	for _, piece := range plan.Pieces {
		done := func(s ReportSegment) bool { return s.Segment.Range == piece.Range }
		if piece.Owner == x.ids[p] && !slices.ContainsFunc(l.m.open.groupReports.stated, done) {
			s := x.reduced(plan, piece)
			l.store(s.Root)
			l.m.Report(x.now, ReportSegment{Group: plan.Group(), Segment: s})
		}
	}
}

// reduced is what an owner makes of a piece. Where there are audits, it follows from the inputs.
func (x *explorer) reduced(plan slot.Plan, piece slot.Piece) slot.Segment {
	set := slot.NewBitmap(len(plan.Offers))
	for i := range plan.Offers {
		if !plan.Gone.Has(i) {
			set.Set(i)
		}
	}
	group := plan.Group()
	s := slot.Segment{Range: piece.Range, Contributors: set}
	if s.Root = slot.Hash(fmt.Appendf(group[:], "%v %v by %s", piece.Range, set, piece.Owner)); x.audits != nil {
		inputs := inputsOf(plan, s)
		s.Root = slot.Hash(inputs[:])
	}
	return s
}

func (l *local) store(roots ...slot.Root) {
	l.disk.segments = maps.Clone(l.disk.segments)
	if l.disk.segments == nil {
		l.disk.segments = map[slot.Root]bool{}
	}
	for _, r := range roots {
		l.disk.segments[r] = true
	}
}

// work does a job whose bytes can be had: the explorer looked.
func (x *explorer) work(_ int, l *local, w Work) {
	l.jobs = slices.DeleteFunc(slices.Clone(l.jobs),
		func(o Work) bool { return reflect.TypeOf(o) == reflect.TypeOf(w) })
	switch w := w.(type) {
	case WorkHold:
		for _, s := range w.Draft.Segments {
			l.store(s.Root)
		}
		l.m.Report(x.now, ReportHeld{Ref: w.Draft.Ref, Outcome: w.Draft.Outcome()})
	case WorkApply:
		for _, s := range w.Record.Segments {
			l.store(s.Root)
		}
		if o := w.Record.Outcome(); w.Record.Kind == slot.Step {
			l.disk.root = slot.Hash(append(l.disk.root[:], o[:]...))
		}
		l.disk.height = w.Record.Height
		l.m.Report(x.now, ReportApplied{Height: l.disk.height, StateRoot: l.disk.root})
	case WorkSync:
		l.disk.height, l.disk.root = w.Roots[0].Height, w.Roots[0].Root
		l.m.Report(x.now, ReportApplied{Height: l.disk.height, StateRoot: l.disk.root})
	}
}
