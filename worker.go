package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/statesync"
)

// worker does what the ledger asks for (membership.Worker), from the all-reduce engine, the outer optimizer and the store:
//
//	WorkFound  -> initial state, on disk            (state job)
//	WorkReduce -> take part in the reduction        (reduce job)
//	WorkHold   -> the outcome's bytes on disk       (hold job)
//	WorkApply  -> outer step with the outcome       (state job)
//	WorkSync   -> a checkpoint from other peers     (state job)
//	WorkAccess -> a private run's secret, in force  (access job)
//
// Jobs of one kind follow each other, the newest replacing an unfinished one; kinds run beside each other.
type worker struct {
	self       PeerID
	spec       Spec
	params     allreduce.Params
	codec      codec.Codec // of contributions
	outcome    codec.Codec // of outcomes
	frameBytes int         // of outcomes
	state      *state
	store      *checkpoint.Store
	engine     *allreduce.Engine
	client     *statesync.Client
	stall      time.Duration // a reduction that has brought nothing for so long will not complete
	init       func(ctx context.Context, dst []float32) error
	certified  func(height uint64) (membership.Commit, bool)
	members    func() []PeerID // of the newest record
	keys       keyring         // of a private run; nil for an open one
	standing   func(PeerID) (ever, removed bool)
	relayed    func() map[PeerID]bool // peers connected now: whether through a relay
	every      uint64                 // slots between checkpoints
	keepStates int                    // checkpoints
	gauges     *gauges
	feedback   *feedback // nil if nothing is lost
	log        *slog.Logger
	emit       func(name string, fields map[string]any)
	fatal      func(error) // ends the node

	jobs jobs
	mu   struct {
		sync.Mutex
		own       map[slot.Root]contribution // offered and not yet spent, by root
		reduction *allreduce.Reduction
		retired   *allreduce.Reduction // of a slot that is applied: it still sends to those on slow links
		reducing  time.Time            // since when it has run
		parts     map[slot.Root][]byte // segments of an outcome that is being gathered, for others who lack them
		sync      *SyncStatus          // while a state is being fetched
	}
}

// Do implements membership.Worker.
func (w *worker) Do(ctx context.Context, work membership.Work, report func(membership.Report)) {
	switch work := work.(type) {
	case membership.WorkFound:
		w.jobs.replace(ctx, "state", func(ctx context.Context) { w.attempt(work, w.found(ctx), report) })
	case membership.WorkReduce:
		w.jobs.replace(ctx, "reduce", func(context.Context) { w.reduce(ctx, work.Plan, report) })
	case membership.WorkHold:
		what := holdName(work.Draft.Height, work.Draft.Prev, work.Draft.Outcome())
		w.jobs.start(ctx, "hold", what, func(ctx context.Context) { // asked for again and again while it lasts
			if err := w.hold(ctx, work); err != nil {
				w.another(err, report)
				w.failed(ctx, work, err, report)
				return
			}
			report(membership.ReportHeld{Ref: work.Draft.Ref, Outcome: work.Draft.Outcome()})
		})
	case membership.WorkAccess:
		w.jobs.replace(ctx, "access", func(ctx context.Context) { w.admit(ctx, work, report) })
	case membership.WorkApply:
		w.jobs.replace(ctx, "state", func(ctx context.Context) { w.attempt(work, w.apply(ctx, work), report) })
	case membership.WorkSync:
		w.jobs.replace(ctx, "state", func(ctx context.Context) { w.attempt(work, w.synchronize(ctx, work), report) })
	}
}

// holdName is what a hold job is for.
func holdName(height uint64, prev, outcome Root) string { return fmt.Sprint(height, prev, outcome) }

// attempt reports what became of a state job.
func (w *worker) attempt(work membership.Work, err error, report func(membership.Report)) {
	if err != nil {
		w.failed(context.Background(), work, err, report)
		return
	}
	at, _ := w.state.position()
	report(at.report())
}

func (w *worker) failed(ctx context.Context, work membership.Work, err error, report func(membership.Report)) {
	if ctx.Err() != nil {
		return // replaced or closing: nobody waits for it
	}
	if disk.Fault(err) { // it can hold no outcome: the others go on faster without it
		w.fatal(err)
		return
	}
	if t := (*TrainerError)(nil); errors.As(err, &t) { // it has no initial parameters, and won't have them the next time
		w.fatal(err)
		return
	}
	w.log.Warn("work failed", "work", fmt.Sprintf("%T", work), "err", err)
	failed := membership.ReportFailed{Work: work, Err: err.Error()}
	if m := (missingError{}); errors.As(err, &m) {
		failed.Missing = m.ranges
	}
	report(failed)
}

// found makes the initial state, durably.
func (w *worker) found(ctx context.Context) error {
	err := w.state.replace(func(vectors [][]float32) (position, error) {
		for _, v := range vectors {
			clear(v)
		}
		if err := w.init(ctx, vectors[0]); err != nil {
			return position{}, fmt.Errorf("initial parameters: %w", err)
		}
		root := checkpoint.StateRoot(0, vectors...)
		if want := w.spec.Init; want != "founder" && want != "root:"+root.String() {
			return position{}, fmt.Errorf("the initial state has root %s, the run spec wants %s: give the model file that the run begins with (--init, Config.InitFile)", root, want)
		}
		return position{record: w.record(0), root: root}, w.store.Save(0, 0, root, vectors...)
	})
	return err
}

// keep holds a contribution until a record spends it or a later slot makes it stale.
func (w *worker) keep(c contribution) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.own[c.encoded.Root()] = c
}

// reduce takes part in the reduction by plan. A revision of the running plan goes on where that one stands.
func (w *worker) reduce(ctx context.Context, plan slot.Plan, report func(membership.Report)) {
	w.mu.Lock()
	var own *allreduce.Contribution
	for _, o := range plan.Offers {
		if o.Peer == w.self {
			own = w.mu.own[o.Root].encoded
		}
	}
	old := w.mu.reduction
	if old != nil && old.Plan().Group() != plan.Group() {
		w.mu.reduction = nil
	} else {
		old = nil
	}
	ended := []*allreduce.Reduction{old, w.mu.retired}
	w.mu.retired = nil
	w.mu.Unlock()
	for _, r := range ended {
		if r != nil {
			r.Release() // the next one has its buffer
		}
	}
	uplink, speeds := w.engine.Rates(w.relayed())
	report(membership.ReportLinks{Uplink: uplink, Speeds: speeds})
	r, err := w.engine.Start(ctx, plan, own, &sink{w, plan.Group(), plan.Round(), report})
	switch {
	case errors.Is(err, allreduce.ErrNotInGroup): // left out: what came so far may still be of use
	case err != nil:
		w.failed(ctx, membership.WorkReduce{Plan: plan}, err, report)
	default:
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.mu.reduction != r {
			w.mu.reduction, w.mu.reducing = r, time.Now()
		}
	}
}

// apply applies a certified record to the state.
func (w *worker) apply(ctx context.Context, work membership.WorkApply) error {
	record := work.Record
	if record.Kind != slot.Step {
		return w.state.pass(record.Height, record.Hash())
	}
	at, stats, err := w.step(ctx, record, work.From)
	var corrupt *checkpoint.CorruptError
	if errors.As(err, &corrupt) { // it has been set aside: once more, with one fetched from others
		at, stats, err = w.step(ctx, record, work.From)
	}
	if err != nil {
		return err
	}
	w.emit("slot.applied", map[string]any{"slot": at.slot, "height": at.height, "state_root": at.root})
	w.emit("slot.stats", w.gauges.applied(stats))
	w.spend(record)
	if at.slot%w.every == 0 {
		w.save()
	}
	return nil
}

// step does the outer step of a record with its outcome, which it gets from others where it is not held.
func (w *worker) step(ctx context.Context, record slot.Record, from []PeerID) (at position, stats slotStats, err error) {
	if err := w.obtain(ctx, record, from); err != nil {
		return position{}, slotStats{}, err
	}
	at, err = w.state.step(record.Height, record.Hash(), record.Slot, func(grad []float32) error {
		if err := w.decode(record, grad); err != nil {
			return err
		}
		stats = w.measure(record, grad)
		return nil
	})
	return at, stats, err
}

// spend lets go of the reduction of a slot that is decided and of the contributions that a record lists or that are too stale.
func (w *worker) spend(record slot.Record) {
	w.mu.Lock()
	r := w.mu.reduction
	w.mu.parts = nil
	if r != nil && r.Plan().Slot <= record.Slot {
		w.mu.reduction, w.mu.retired = nil, r
	} else {
		r = nil
	}
	maps.DeleteFunc(w.mu.own, func(root Root, c contribution) bool {
		// Another peer's may be of the same bytes.
		place := slices.IndexFunc(record.Contributions, func(o slot.Offer) bool { return o.Peer == w.self && o.Root == root })
		done := place >= 0 || c.base+w.spec.MaxStaleness() < record.Slot // else the ledger offers it for the next slot
		if c.residual != nil && place >= 0 {
			w.feedback.advance(record, place, c.residual)
		}
		if done {
			w.feedback.giveBack(c.residual)
		}
		return done
	})
	w.mu.Unlock()
	if r != nil {
		r.Retire()
	}
}

// close ends what runs; the context of the jobs must have ended.
func (w *worker) close() {
	_ = w.engine.Close()
	w.jobs.wait()
}

// sink turns what the engine says into reports to the ledger.
type sink struct {
	w      *worker
	group  Root
	round  Root // of the plan, in a ring
	report func(membership.Report)
}

func (s *sink) SegmentDone(segment slot.Segment) {
	s.report(membership.ReportSegment{Group: s.group, Segment: segment})
}

func (s *sink) Lost(peer PeerID, reason allreduce.Reason, err error) {
	s.w.log.Warn("peer failed in the reduction", "peer", peer, "reason", reason, "err", err)
	why := map[allreduce.Reason]membership.LostReason{
		allreduce.Connection: membership.LostConnection, allreduce.BadValue: membership.LostBadValue, allreduce.BadBytes: membership.LostBadBytes,
	}
	if r, ok := why[reason]; ok {
		s.report(membership.ReportLost{Group: s.group, Peer: peer, Reason: r, Round: s.round})
	}
}

func (s *sink) Progress(_, received uint64) { s.report(membership.ReportProgress{Bytes: received}) }
