package membership

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// model keeps which state the worker holds, and asks it for the next one.
type model struct {
	*facts
	*effects
	presence *presence
	state    modelState
	syncs    uint64 // how often a state was asked for
}

func newModel(f *facts, e *effects, p *presence) *model {
	return &model{facts: f, effects: e, presence: p, state: modelState{fromDisk: true, retryAt: never}}
}

// modelState describes the model state that the worker holds, by its reports.
type modelState struct {
	known  bool
	height uint64 // it is the state after the record at this height
	slot   uint64
	root   slot.Root
	// the root is not the certified one: no vote, no HAVE, no contribution until it is replaced
	diverged bool
	fromDisk bool // the worker has no task yet: its report is about what was on its disk
	applying uint64
	syncing  bool
	// an outcome could not be had: a newer certified state will do, or, if that is not to be had
	// either, the outcome at the next try
	resync  bool
	retryAt time.Duration
}

// atTip says whether the state after the tip is held, as far as one can know: it is what makes a
// HAVE or a vote true.
func (md *model) atTip() bool {
	s := md.state
	return s.known && !s.diverged && s.height == md.chain.Height()
}

// advanceState asks the worker for the next step towards the tip: a record to apply, or a state to
// fetch.
//
// I5: a record is applied only out of the chain, where it got with its certificate on disk.
func (md *model) advanceState(chainGrows func() bool) {
	s := &md.state
	if md.chain.Height() == 0 || s.applying > 0 || s.syncing || md.now < s.retryAt {
		return
	}
	switch {
	case (!s.known || s.diverged) && chainGrows():
		// what its newest part certifies is the better state to fetch
	case !s.known || s.diverged:
		md.sync(0)
	case s.height >= md.chain.Height():
	case s.resync && s.height+1 < md.chain.Height():
		md.sync(s.height + 1)
	default:
		md.applyNext()
	}
}

func (md *model) applyNext() {
	s := &md.state
	c, err := md.chain.Read(s.height + 1)
	if err != nil {
		s.resync = true
		return
	}
	r := c.Record
	s.fromDisk, s.resync, s.applying = false, false, r.Height
	from := append(md.presence.appliedBy(r.Height), offerers(r.Contributions), peersOf(r.Members))
	md.work(WorkApply{Record: r, From: md.presence.sources(from...)})
}

// maxRoots bounds how many certified states a worker may choose from. Many, because checkpoints are
// some slots apart, records of members come between, and servers move on (HOLES H29).
const maxRoots = 256

// sync asks for the newest certified state of at least a height. The root after a record is
// certified by the record above it.
func (md *model) sync(least uint64) {
	s := &md.state
	var roots []CertifiedState
	for h := md.chain.Height(); h > least && len(roots) < maxRoots; h-- {
		root, _ := md.chain.StateRoot(h - 1)
		roots = append(roots, CertifiedState{
			Height: h - 1, Slot: md.chain.SlotAt(h - 1), Root: root, Record: md.chain.Hash(h - 1),
		})
	}
	from := md.presence.sources(md.presence.appliedBy(least)...)
	if len(from) == 0 {
		s.resync, s.retryAt = false, md.now+md.cfg.Timing.Retry
		return
	}
	s.fromDisk, s.syncing = false, true
	md.syncs++
	md.work(WorkSync{Number: md.syncs, Roots: roots, From: from})
}

// failed takes in that a record could not be applied, or a state not be had. Work that newer work
// has replaced, after a change of chains, may say so late: that would cut the newer one off.
func (md *model) failed(w Work) {
	s := &md.state
	switch w := w.(type) {
	case WorkApply:
		if s.applying > 0 && md.chain.Has(w.Record.Height, w.Record.Hash()) && s.applying == w.Record.Height {
			s.applying, s.resync, s.retryAt = 0, true, md.now+md.cfg.Timing.Retry
		}
	case WorkSync:
		if s.syncing && w.Number == md.syncs {
			s.syncing, s.resync, s.retryAt = false, false, md.now+md.cfg.Timing.Retry
		}
	}
}

// applied takes the worker's report of the state that it holds.
//
// I2: where the root is certified it must be that one. Where it is not yet (after the tip), the
// next record shows it.
func (md *model) applied(r ReportApplied) (taken bool) {
	s := &md.state
	root, certified := md.chain.StateRoot(r.Height)
	switch {
	case r.Height > md.chain.Height():
		return false // a state without its chain is worthless
	case !r.Record.IsZero() && r.Record != md.chain.Hash(r.Height):
		return false // the state of a chain given up
	case certified && root != r.StateRoot:
		md.wrongState(r)
		return false
	case !certified && !s.fromDisk && s.applying != r.Height:
		return false // of an older chain, or after a divergence
	case s.known && !s.diverged && r.Height < s.height:
		return false
	}
	*s = modelState{
		known: true, height: r.Height, slot: md.chain.SlotAt(r.Height), root: r.StateRoot, fromDisk: s.fromDisk,
		retryAt: never,
	}
	return true
}

// wrongState handles a root that differs from the certified one. It is no divergence if this peer
// did not ask for the state, which belongs to a chain given up then, or if the state was this peer
// prepared it for a founding that another peer did first.
func (md *model) wrongState(r ReportApplied) {
	switch s := &md.state; {
	case !s.fromDisk && s.applying != r.Height:
	case r.Height == 0:
		*s = modelState{retryAt: never}
	default:
		md.diverge(r.Height, md.chain.SlotAt(r.Height), r.StateRoot)
	}
}

// diverge stops everything that would let a wrong state count, until a certified one replaces it.
func (md *model) diverge(height, slotNumber uint64, root slot.Root) {
	md.state = modelState{
		known: true, diverged: true, height: height, slot: slotNumber, root: root,
		retryAt: never,
	}
	certified, _ := md.chain.StateRoot(height)
	md.event(Event{
		Kind: EventDiverged, Height: height, Slot: slotNumber, Peer: md.cfg.Self, Root: certified,
		State: root,
		Detail: "the state here is not the certified one; a certified one is fetched before this peer contributes or " +
			"votes again",
	})
}

// compareState checks the held state against the root that the newest record certifies.
func (md *model) compareState() {
	s := &md.state
	root, certified := md.chain.StateRoot(s.height)
	switch {
	case !s.known || s.diverged || !certified || root == s.root:
	case s.height == 0:
		*s = modelState{retryAt: never} // prepared for a founding that another peer did
	default:
		md.diverge(s.height, s.slot, s.root)
	}
}
