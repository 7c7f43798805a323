package figures

import (
	"sync"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A Follower follows for one peer who contributes what. Its methods may be called from any
// goroutine.
type Follower struct {
	params  allreduce.Params
	current func() *allreduce.Reduction // nil: none runs
	emit    func(name string, fields map[string]any)

	mu struct {
		sync.Mutex
		tracker *Tracker
		watch   *watch
	}
}

// New makes the Follower of a peer. current returns the reduction that runs, or ran last; nil:
// there is none. emit takes events.
func New(self slot.PeerID, params allreduce.Params, current func() *allreduce.Reduction,
	emit func(name string, fields map[string]any),
) *Follower {
	c := &Follower{params: params, current: current, emit: emit}
	c.mu.tracker, c.mu.watch = NewTracker(self), newWatch(params.Weighing)
	return c
}

// Decided takes in the record of a step. The reduction of its slot is there, or what it would say
// is not known.
func (c *Follower) Decided(record slot.Record) {
	now := c.current()
	if now != nil && now.Plan().Slot != record.Slot {
		now = nil
	}
	changes, of := c.noteRecord(now, record)
	if len(of) > 0 {
		c.emit("slot.figures", event(record.Slot, of))
	}
	for _, change := range changes { // whoever hears of it may ask for Members
		c.tell(change)
	}
}

// noteRecord returns what changes with a record, and the figures of its slot, if there are any.
func (c *Follower) noteRecord(now *allreduce.Reduction, record slot.Record) (
	all []Change, of []Contribution,
) {
	leaves := func(o slot.Offer) (leaves []slot.FrameLeaf, seen bool) {
		if now == nil {
			return nil, false
		}
		return now.Leaves(o.Peer)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	members := make([]slot.PeerID, len(record.Members))
	for i, m := range record.Members {
		members[i] = m.Peer
	}
	all = c.mu.tracker.Begin(record.Slot, members)
	if now != nil && len(now.Plan().Ring) == 0 {
		of = c.published(now, record)
		all = append(all, c.mu.tracker.Add(record.Slot, of)...)
	}
	for _, o := range c.mu.watch.noteRecord(record, leaves) {
		all = append(all, c.mu.tracker.Note(record.Slot, o)...)
	}
	return all, of
}

// published sums up what the owners have published of a slot. What has come another way than from
// its owner says nothing.
func (c *Follower) published(now *allreduce.Reduction, record slot.Record) []Contribution {
	plan := now.Plan()
	var segments []Segment
	for _, s := range record.Segments {
		var offers []slot.Offer
		var peers []slot.PeerID
		for i, o := range record.Contributions {
			if s.Contributors.Has(i) {
				offers, peers = append(offers, o), append(peers, o.Peer)
			}
		}
		if rows := now.Figures(s.Range, peers); rows != nil {
			owner := plan.Pieces[plan.PieceAt(s.Range.Begin)].Owner
			segments = append(segments, Segment{Owner: owner, Usual: record.Usual, Offers: offers, Rows: rows})
		}
	}
	return Sum(c.params, record.Slot, segments)
}

// tell makes an event where a finding begins or ends. What is about this peer itself is an alarm.
func (c *Follower) tell(change Change) {
	name := map[bool]string{true: "peer.stands_out", false: "peer.fits_in"}[change.Begins]
	if change.Kind == OwnOpposite {
		name = map[bool]string{true: "trainer.alarm", false: "trainer.alarm_over"}[change.Begins]
	}
	c.emit(name, map[string]any{
		"about": change.Peer, "finding": string(change.Kind), "detail": change.Words, "slot": change.Slot,
	})
}

// Members returns what is known of each member.
func (c *Follower) Members() map[slot.PeerID]Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.tracker.Members()
}
