package membership

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// modelState is which model state the worker holds, by its reports.
type modelState struct {
	known    bool
	height   uint64 // it is the state after the record at this height
	slot     uint64
	root     slot.Root
	diverged bool // the root is not the certified one: no vote, no HAVE, no contribution until it is replaced
	fromDisk bool // nothing was asked of the worker yet: a report tells what was on its disk
	applying uint64
	syncing  bool
	resync   bool // an outcome could not be had: a newer certified state will do
	retryAt  time.Duration
}

// atTip says whether the state after the tip is held, as far as one can know: it is what makes a HAVE or a vote true.
func (m *Machine) atTip() bool {
	s := m.state
	return s.known && !s.diverged && s.height == m.chain.height()
}

// advanceState asks the worker for the next step towards the tip: a record to apply, or a state to fetch.
//
// I5: a record is applied only out of the chain, where it got with its certificate on disk.
func (m *Machine) advanceState() {
	s := &m.state
	if m.chain.height() == 0 || s.applying > 0 || s.syncing || m.now < s.retryAt {
		return
	}
	switch {
	case (!s.known || s.diverged) && m.chainGrows(): // what its newest part certifies is the better state to fetch
	case !s.known || s.diverged:
		m.sync(0)
	case s.height >= m.chain.height():
	case s.resync && s.height+1 < m.chain.height():
		m.sync(s.height + 1)
	default:
		s.fromDisk, s.resync, s.applying = false, false, s.height+1
		r := m.chain.at(s.height + 1)
		m.work(WorkApply{Record: r, From: m.sources(m.appliedBy(r.Height), offerers(r.Contributions), peersOf(r.Members))})
	}
}

// maxRoots bounds how many certified states a worker may choose from. Many, because checkpoints are some slots apart, records of
// members come between, and servers move on (HOLES H29).
const maxRoots = 256

// sync asks for the newest certified state of at least a height. The root after a record is certified by the record above it.
func (m *Machine) sync(least uint64) {
	s := &m.state
	var roots []CertifiedState
	for h := m.chain.height(); h > least && len(roots) < maxRoots; h-- {
		root, _ := m.chain.stateRoot(h - 1)
		roots = append(roots, CertifiedState{Height: h - 1, Slot: m.chain.at(h - 1).Slot, Root: root, Record: m.chain.hashes[h-1]})
	}
	from := m.sources(m.appliedBy(least))
	if len(from) == 0 {
		s.retryAt = m.now + m.cfg.Timing.Retry
		return
	}
	s.fromDisk, s.syncing = false, true
	m.work(WorkSync{Roots: roots, From: from})
}

// appliedBy lists who says that it holds the state after a height or a later one, on this chain; members first: what strangers
// claim, however many they are, must not push members out of the sources.
func (m *Machine) appliedBy(height uint64) (ps []slot.PeerID) {
	var strangers []slot.PeerID
	holds := func(a *acquaintance) bool {
		return a.alive != nil && a.alive.Synced && m.along(a) && a.alive.Applied >= height && m.around(a.who)
	}
	for _, a := range m.presence.sorted(holds) {
		if _, member := findMember(m.chain.electorate(), a.peer, a.inc); member {
			ps = append(ps, a.peer)
		} else {
			strangers = append(strangers, a.peer)
		}
	}
	return append(ps, strangers...)
}

// applied takes the worker's word for the state it holds.
//
// I2: where the root is certified it must be that one. Where it is not yet (after the tip), the next record shows it.
func (m *Machine) applied(r ReportApplied) {
	s := &m.state
	root, certified := m.chain.stateRoot(r.Height)
	switch {
	case r.Height > m.chain.height():
		return // a state without its chain is worthless
	case !r.Record.IsZero() && r.Record != m.chain.hashes[r.Height]:
		return // the state of a chain given up
	case certified && root != r.StateRoot:
		m.wrongState(r)
		return
	case !certified && !s.fromDisk && s.applying != r.Height:
		return // of an older chain, or after a divergence
	case s.known && !s.diverged && r.Height < s.height:
		return
	}
	*s = modelState{
		known: true, height: r.Height, slot: m.chain.at(r.Height).Slot, root: r.StateRoot, fromDisk: s.fromDisk, retryAt: never,
	}
	m.signFounding()
	if m.atTip() && m.chain.height() > 0 {
		m.announceAlive()
	}
}

// wrongState deals with a root that differs from the certified one. What was not asked for belongs to a chain given up, and a
// state prepared for a founding that another peer did first is no divergence.
func (m *Machine) wrongState(r ReportApplied) {
	switch s := &m.state; {
	case !s.fromDisk && s.applying != r.Height:
	case r.Height == 0:
		*s = modelState{retryAt: never}
	default:
		m.diverge(r.Height, r.StateRoot)
	}
}

// diverge stops everything that would let a wrong state count, until a certified one replaces it.
func (m *Machine) diverge(height uint64, root slot.Root) {
	m.state = modelState{known: true, diverged: true, height: height, slot: m.chain.at(height).Slot, root: root, retryAt: never}
	m.mine = nil
	certified, _ := m.chain.stateRoot(height)
	m.event(Event{
		Kind: EventDiverged, Height: height, Slot: m.chain.at(height).Slot, Peer: m.cfg.Self, Root: certified, State: root,
		Detail: "the state here is not the certified one; a certified one is fetched before this peer contributes or votes again",
	})
}

// compareState checks the held state against the root that the newest record certifies.
func (m *Machine) compareState() {
	s := &m.state
	root, certified := m.chain.stateRoot(s.height)
	switch {
	case !s.known || s.diverged || !certified || root == s.root:
	case s.height == 0:
		*s = modelState{retryAt: never} // prepared for a founding that another peer did
	default:
		m.diverge(s.height, s.root)
	}
}

// failed decides what instead of work that could not be done.
func (m *Machine) failed(r ReportFailed) {
	s := &m.state
	switch w := r.Work.(type) {
	case WorkApply:
		if s.applying == w.Record.Height {
			s.applying, s.resync, s.retryAt = 0, true, m.now+m.cfg.Timing.Retry
		}
	case WorkSync:
		s.syncing, s.retryAt = false, m.now+m.cfg.Timing.Retry
	case WorkHold:
		if m.open.fetching == w.Draft.Outcome() {
			m.open.fetchedAt = m.now - 3*m.cfg.Timing.Retry // once more, after a pause
			m.accuseOwners(w.Draft, r.Missing)
		}
	case WorkAccess:
		m.accessFailed(w)
	case WorkFound:
		m.founding.asked, m.founding.since = false, m.now
	case WorkReduce:
		m.reduceFailed(w.Plan)
	}
}

// reduceFailed: this peer cannot take part. The leader revises the plan without it.
func (m *Machine) reduceFailed(p slot.Plan) {
	if p.Place(m.cfg.Self) >= 0 {
		m.accuse(ReportLost{Group: p.Group(), Peer: m.cfg.Self, Reason: LostConnection})
	}
}
