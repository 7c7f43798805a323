package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/node/admission/proof"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Do implements membership.Worker:
//
//	WorkFound  -> the initial state, on disk                state job
//	WorkReduce -> this peer's part in a reduction           reduce job, write job
//	WorkHold   -> an outcome's bytes, or a secret, on disk  hold job
//	WorkAudit  -> samples of an outcome, checked            audit job
//	WorkApply  -> the outer step with an outcome            state job
//	WorkSync   -> a checkpoint from other peers             state job
//	WorkAccess -> a private run's secret, in force          access job
func (r *Replica) Do(ctx context.Context, work membership.Work, report func(membership.Report)) {
	switch work := work.(type) {
	case membership.WorkFound:
		r.stateJob(ctx, work, report, r.found)
	case membership.WorkApply:
		r.stateJob(ctx, work, report, func(ctx context.Context) error { return r.apply(ctx, work) })
	case membership.WorkSync:
		r.stateJob(ctx, work, report, func(ctx context.Context) error { return r.synchronize(ctx, work) })
	case membership.WorkReduce:
		// ctx bounds the reduction, which outlives the job
		r.jobs.start(ctx, "reduce", "", func(context.Context) {
			own, done := r.contributions.find(work.Plan.Offers)
			defer done()
			if err := r.reductions.start(ctx, work, own, report); err != nil {
				r.failed(ctx, work, err, report)
			} else if running, _ := r.reductions.running(); running != nil {
				r.jobs.start(ctx, "write", fmt.Sprint(running.Plan().Group()), func(ctx context.Context) {
					if r.cfg.Kept() == nil { // else it would make a folder beside what was lost
						r.outcomes.writeAhead(ctx, running)
					}
				})
			}
		})
	case membership.WorkHold:
		purpose := holdPurpose(work.Draft.Height, work.Draft.Prev, work.Draft.Outcome())
		r.jobs.start(ctx, "hold", purpose, func(ctx context.Context) { r.hold(ctx, work, report) })
	case membership.WorkAudit:
		purpose := holdPurpose(work.Draft.Height, work.Draft.Prev, work.Record)
		r.jobs.start(ctx, "audit", purpose, func(ctx context.Context) { r.audit(ctx, work, report) })
	case membership.WorkAccess:
		r.jobs.start(ctx, "access", "", func(ctx context.Context) { r.followAccess(ctx, work, report) })
	}
}

// holdPurpose names what a hold job is for. The ledger asks for the same one repeatedly.
func holdPurpose(height uint64, prev, outcome slot.Root) string {
	return fmt.Sprint(height, prev, outcome)
}

// stateJob runs do as the state job and reports the position it leads to.
func (r *Replica) stateJob(run context.Context, work membership.Work, report func(membership.Report),
	do func(context.Context) error,
) {
	r.jobs.start(run, "state", "", func(ctx context.Context) {
		err := r.cfg.Kept()
		if err == nil {
			err = do(ctx)
		}
		if err != nil {
			// The ledger gets the report even if the job was replaced meanwhile.
			r.failed(context.WithoutCancel(ctx), work, err, report)
			return
		}
		r.faults.clear()
		at, _ := r.model.state.position()
		report(at.Report())
		r.saveBeside(run)
	})
}

// hold gets what a draft needs on disk.
func (r *Replica) hold(ctx context.Context, work membership.WorkHold, report func(membership.Report)) {
	err := r.cfg.Kept()
	if err == nil {
		err = r.holdKey(ctx, work, report)
	}
	if err == nil {
		err = r.outcomes.hold(ctx, work.Draft, work.From)
	}
	if err != nil {
		r.failed(ctx, work, err, report)
		return
	}
	r.faults.clear()
	failpoint.Here(failpoint.OutcomeHeld)
	report(membership.ReportHeld{Ref: work.Draft.Ref, Outcome: work.Draft.Outcome()})
}

// Auditor checks samples of outcomes (package auditor).
type Auditor interface {
	Audit(ctx context.Context, w membership.WorkAudit) (membership.ReportAudited, []membership.Report, error)
	Decided() // the open height is
}

// Shown is what an Auditor sees of a replica.
type Shown struct {
	// the own contribution with a root; nil: it is not held any more
	Own func(root slot.Root) (own *allreduce.Contribution, done func())
	// what a contributor has committed to, where the reduction of this slot has shown it
	Leaves  func(o slot.Offer) (leaves []slot.FrameLeaf, ok bool)
	Segment func(root slot.Root) (*checkpoint.SegmentReader, error) // that is held
	Member  func(slot.PeerID) bool                                  // by the newest record
}

func (r *Replica) shown() Shown {
	return Shown{
		Own: r.contributions.shown, Leaves: r.reductions.leaves, Member: r.isMember,
		Segment: func(root slot.Root) (*checkpoint.SegmentReader, error) { return r.model.store.OwnSegment(root) },
	}
}

// audit checks samples of a draft's outcome, which is held.
func (r *Replica) audit(ctx context.Context, work membership.WorkAudit, report func(membership.Report)) {
	if r.cfg.Passes != nil && r.cfg.Passes(work.Draft.Slot) {
		report(membership.ReportAudited{Ref: work.Draft.Ref, Record: work.Record})
		return
	}
	found, lies, err := r.auditor.Audit(ctx, work)
	for _, lie := range lies {
		report(lie)
	}
	if err != nil {
		r.failed(ctx, work, err, report)
		return
	}
	report(found)
}

// Permanent marks an error of Config.Init that will come again each time: it ends the node.
func Permanent(err error) error { return permanentError{err} }

type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// failed reports that work failed.
func (r *Replica) failed(ctx context.Context, work membership.Work, err error, report func(membership.Report)) {
	if ctx.Err() != nil {
		return // the job was replaced or the node closes: nobody waits for it
	}
	if gone := r.cfg.Kept(); gone != nil {
		err = gone // whatever else is missing with it
	}
	known := r.Fault() != nil
	if r.faults.last(err) || errors.As(err, new(permanentError)) || errors.As(err, new(*trainer.Error)) {
		// This peer can hold no outcome, or make no initial state: the others go on faster without
		// it.
		r.cfg.Fatal(err)
		return
	}
	switch {
	case r.Fault() == nil:
		r.log.Warn("work failed", "work", fmt.Sprintf("%T", work), "err", err)
	case !known:
		r.log.Warn("this peer takes no part while it cannot use its files", "err", err)
	}
	failed := membership.ReportFailed{Work: work, Err: err.Error()}
	if m := (missingError{}); errors.As(err, &m) {
		failed.Missing = m.ranges
	}
	report(failed)
}

// found makes the initial state, on disk first.
func (r *Replica) found(ctx context.Context) error {
	return r.model.state.replace(func(vectors [][]float32) (Position, error) {
		for _, v := range vectors {
			clear(v)
		}
		if err := r.cfg.Init(ctx, vectors[0]); err != nil {
			return Position{}, fmt.Errorf("initial parameters: %w", err)
		}
		root := checkpoint.StateRoot(checkpoint.Count{}, vectors...)
		if want := r.model.run.InitRoot; !want.IsZero() && want != root {
			return Position{}, fmt.Errorf("the initial state has root %s, the run spec wants root:%s: give the model "+
				"file that the run begins with (--init, Config.InitFile)", root, want)
		}
		err := r.model.store.Save(0, checkpoint.Count{}, root, vectors...)
		return Position{Record: r.model.recordAt(0), Root: root}, err
	})
}

// synchronize fetches a checkpoint that the chain certifies and makes it the state.
func (r *Replica) synchronize(ctx context.Context, work membership.WorkSync) error {
	r.fetcher.show(&FetchStatus{})
	defer r.fetcher.show(nil)
	got, fetched, err := r.fetcher.fetch(ctx, r.model.store, work, func() []slot.PeerID { return r.donors(work.From) })
	if err != nil {
		return err
	}
	var record slot.Root
	for _, c := range work.Roots {
		if c.Height == got.Height {
			record = c.Record
		}
	}
	r.border.Lock()
	defer r.border.Unlock()
	err = r.model.state.replace(func(vectors [][]float32) (Position, error) {
		return Position{got.Height, record, got.Slot, got.Open, got.Root}, r.model.store.Load(got, vectors...)
	})
	if err != nil {
		return err
	}
	r.contributions.feedback.forgive()
	at, _ := r.Position()
	r.debtFile.reached(at)
	sources := make(map[string]int64, len(fetched.Sources))
	for p, n := range fetched.Sources {
		sources[p.String()] = n
	}
	r.cfg.Emit("state.synced", map[string]any{
		"slot": got.Slot, "height": got.Height, "bytes": fetched.Bytes, "resumed": fetched.Resumed,
		"sources": sources, "state_root": got.Root,
	})
	return nil
}

// Keyring keeps the admission secrets of a private run's peer. The ledger names a secret by its
// commitment.
type Keyring interface {
	// Candidate is the commitment to a secret of this peer's own that nobody else knows. The secret
	// is on disk once it is proposed and held.
	Candidate() (slot.Root, error)
	// Hold gets the secret of a commitment, which is proposed, on disk, and keeps it from the peers
	// of without. It fails with an error that wraps proof.ErrShared where one of them may know it.
	Hold(ctx context.Context, key slot.Root, from []slot.PeerID, without ...slot.PeerID) error
	// Follow brings the secret in force, and shuts out the peers that may not be here any more.
	Follow(key slot.Root, accessOf proof.AccessOf) error
}

// followAccess applies what the chain says about the peers that may be in the run, and makes the
// next secret ready.
func (r *Replica) followAccess(ctx context.Context, work membership.WorkAccess, report func(membership.Report)) {
	if r.cfg.Keys == nil {
		return
	}
	var err error
	if !work.Key.IsZero() {
		err = r.cfg.Keys.Hold(ctx, work.Key, work.From)
	}
	// Removed peers are disconnected even without the secret.
	if err := errors.Join(err, r.cfg.Keys.Follow(work.Key, r.access)); err != nil {
		if r.cfg.Ledger.Access(r.cfg.Self).Removed {
			return // the secret is not for this peer; another record is needed, and asks again
		}
		r.failed(ctx, work, err, report)
		return
	}
	next, err := r.cfg.Keys.Candidate()
	if err != nil {
		r.failed(ctx, work, err, report)
		return
	}
	r.faults.clear()
	report(membership.ReportKey{Key: next})
}

// access says whether a peer may take part that was a member, or is removed, or about to be.
func (r *Replica) access(p slot.PeerID) proof.Access {
	s := r.cfg.Ledger.Access(p)
	at := proof.Access{Ever: s.Ever, Removed: s.Barred}
	if at.Removed {
		at.Why = "the members have removed it from the run, " + s.RemovalText(p)
	}
	return at
}

// holdKey gets on disk the secret that a draft puts in force, if there is one. If a peer that the
// draft removes may know the secret, holdKey makes another one ready for the next proposal.
func (r *Replica) holdKey(ctx context.Context, work membership.WorkHold, report func(membership.Report)) error {
	if work.Draft.Kind != slot.Access || r.cfg.Keys == nil {
		return nil
	}
	var removed []slot.PeerID
	for _, d := range work.Draft.Decisions {
		if d.Action == slot.Remove {
			removed = append(removed, d.Peer)
		}
	}
	err := r.cfg.Keys.Hold(ctx, work.Draft.Key, work.From, removed...)
	if errors.Is(err, proof.ErrShared) {
		if next, err := r.cfg.Keys.Candidate(); err == nil {
			report(membership.ReportKey{Key: next})
		}
	}
	return err
}
