package replica

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// reductions holds the reduction that this peer takes part in, and the one before it, which may
// still send to peers on slow links.
type reductions struct {
	engine  *allreduce.Engine
	params  allreduce.Params
	relayed func() map[slot.PeerID]bool // peers connected now: true where a relay is between
	log     *slog.Logger

	mu struct {
		sync.Mutex
		current *allreduce.Reduction
		began   time.Time
		retired *allreduce.Reduction // its slot is decided
		rates   map[slot.PeerID]uint32
	}
}

// start takes part in the reduction by a plan, with this peer's own contribution if it has one. A
// revision of the running plan goes on where that one stands. ctx bounds the reduction.
func (r *reductions) start(ctx context.Context, work membership.WorkReduce, own *allreduce.Contribution,
	report func(membership.Report),
) error {
	plan := work.Plan
	r.release(plan.Group())
	uplink, speeds := r.engine.Rates(r.relayed())
	report(membership.ReportLinks{Uplink: uplink, Speeds: speeds})
	r.mu.Lock()
	r.mu.rates = maps.Clone(speeds)
	r.mu.Unlock()
	reduction, err := r.engine.Start(ctx, plan, own, &sink{plan, work.Share, r.params, report, r.log})
	if errors.Is(err, allreduce.ErrNotInGroup) { // what came so far may still be of use
		return nil
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.current != reduction {
		r.mu.current, r.mu.began = reduction, time.Now()
	}
	return nil
}

// measured returns how fast this peer could send to each other one, in kB/s.
func (r *reductions) measured() map[slot.PeerID]uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.rates // it is not changed
}

// release frees the buffers of the reductions that are not of a group: the next one has its own.
func (r *reductions) release(group slot.Root) {
	r.mu.Lock()
	old, retired := r.mu.current, r.mu.retired
	r.mu.retired = nil
	if old != nil && old.Plan().Group() == group {
		old = nil
	} else {
		r.mu.current = nil
	}
	r.mu.Unlock()
	for _, ended := range []*allreduce.Reduction{old, retired} {
		if ended != nil {
			ended.Release()
		}
	}
}

// running returns the current reduction, nil if there is none, and when it began.
func (r *reductions) running() (*allreduce.Reduction, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.current, r.mu.began
}

// busy says whether a reduction runs that is not complete.
func (r *reductions) busy() bool {
	current, _ := r.running()
	if current == nil {
		return false
	}
	select {
	case <-current.Complete():
		return false
	default:
		return true
	}
}

// decided takes in that a slot has its record: its reduction only serves peers on slow links now.
func (r *reductions) decided(slotNumber uint64) {
	r.mu.Lock()
	ended := r.mu.current
	if ended == nil || ended.Plan().Slot > slotNumber {
		r.mu.Unlock()
		return
	}
	r.mu.current, r.mu.retired = nil, ended
	r.mu.Unlock()
	ended.Retire()
}

// cosine returns the mean cosine between the contributions that the running reduction of a slot has
// seen here, or NaN.
func (r *reductions) cosine(slotNumber uint64) float64 {
	if current, _ := r.running(); current != nil && current.Plan().Slot == slotNumber {
		return current.Cosine()
	}
	return math.NaN()
}

// hold lends some of the segments as the running reduction has them, until done is called: none
// where the bytes are not there or do not have the segment's root.
func (r *reductions) hold(segments []slot.Segment, which []int, frameBytes func() int) (data []slot.Frames,
	done func(),
) {
	current, _ := r.running()
	if current == nil {
		return make([]slot.Frames, len(which)), func() {}
	}
	ranges := make([]slot.Range, len(which))
	for k, i := range which {
		ranges[k] = segments[i].Range
	}
	data, done = current.Hold(ranges)
	for k, frames := range data {
		if frames.Root(frameBytes()) != segments[which[k]].Root {
			data[k] = slot.Frames{}
		}
	}
	return data, done
}

// leaves is what a contributor has committed to, if the running reduction has seen it.
func (r *reductions) leaves(o slot.Offer) ([]slot.FrameLeaf, bool) {
	current, _ := r.running()
	if current == nil || !slices.Contains(current.Plan().Offers, o) {
		return nil, false
	}
	return current.Leaves(o.Peer)
}

// sink turns what the engine reports of one reduction into reports to the ledger.
type sink struct {
	plan   slot.Plan
	share  chain.Share
	params allreduce.Params
	report func(membership.Report)
	log    *slog.Logger
}

// Within leaves out the newcomers that are too many beside others, those last that own pieces: this
// peer may be one.
func (s *sink) Within(set slot.Bitmap) slot.Bitmap {
	return s.share.Within(set, s.plan.OwnsPiece)
}

// SegmentDone reports a segment.
func (s *sink) SegmentDone(segment slot.Segment) {
	s.report(membership.ReportSegment{Group: s.plan.Group(), Segment: segment})
}

// Lost reports a peer that failed. A commitment that no honest peer makes proves that it lies.
func (s *sink) Lost(peer slot.PeerID, reason allreduce.Reason, err error) {
	s.log.Warn("peer failed in the reduction", "peer", peer, "reason", reason, "err", err)
	why := map[allreduce.Reason]wire.LostReason{
		allreduce.Connection: wire.LostConnection, allreduce.BadValue: wire.LostBadValue,
		allreduce.BadBytes: wire.LostBadBytes, allreduce.FalseNorm: wire.LostBadBytes,
		allreduce.TooManyRanges: wire.LostConnection,
	}
	if r, ok := why[reason]; ok {
		s.report(membership.ReportLost{Group: s.plan.Group(), Peer: peer, Reason: r, Round: s.plan.Round()})
	}
	place := s.plan.Place(peer)
	if place < 0 {
		return
	}
	offer := s.plan.Offers[place]
	if proof, ok := s.proves(offer, err); ok {
		s.report(membership.ReportFalseOffer{Offer: offer, Proof: proof.Append(nil)})
	}
}

// proves makes a proof against whoever signed an offer of what was met in the reduction.
func (s *sink) proves(offer slot.Offer, met error) (proof audit.Proof, ok bool) {
	var frame *allreduce.BadFrame
	var total *allreduce.BadTotal
	var err error
	switch {
	case errors.As(met, &frame):
		proof, err = audit.ProveFrame(s.params, offer, frame)
	case errors.As(met, &total):
		proof, err = audit.ProveTotal(s.params, offer, total.Leaves)
	default:
		return proof, false
	}
	return proof, err == nil
}

func (s *sink) Progress(_, received uint64) { s.report(membership.ReportProgress{Bytes: received}) }
