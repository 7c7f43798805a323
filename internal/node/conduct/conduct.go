package conduct

import (
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// Conduct follows who contributes what. It implements auditor.Figures. Its methods may be called
// from any goroutine.
type Conduct struct {
	params  allreduce.Params
	current func() *allreduce.Reduction // nil: none runs
	emit    func(name string, fields map[string]any)

	mu struct {
		sync.Mutex
		tracker *figures.Tracker
		watch   *watch
		slot    uint64              // that differ is about
		differ  map[slot.Range]bool // ranges with other figures than their owners have signed
	}
}

// New makes the Conduct of a peer. current returns the reduction that runs, or ran last; nil: there
// is none. emit takes events.
func New(self slot.PeerID, params allreduce.Params, current func() *allreduce.Reduction,
	emit func(name string, fields map[string]any),
) *Conduct {
	c := &Conduct{params: params, current: current, emit: emit}
	c.mu.tracker, c.mu.watch, c.mu.differ = figures.NewTracker(self), newWatch(params.Weighing), map[slot.Range]bool{}
	return c
}

// Of implements auditor.Figures.
func (c *Conduct) Of(slotNumber uint64, r slot.Range, peers []slot.PeerID) ([]slot.FigureRow, bool) {
	now := c.current()
	if now == nil || now.Plan().Slot != slotNumber {
		return nil, false
	}
	rows, _ := now.Figures(r, peers)
	return rows, rows != nil
}

// Differ implements auditor.Figures.
func (c *Conduct) Differ(slotNumber uint64, r slot.Range) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.slot != slotNumber {
		c.mu.slot = slotNumber
		clear(c.mu.differ)
	}
	c.mu.differ[r] = true
}

// Decided takes in the record of a step. The reduction of its slot is there, or what it would say
// is not known.
func (c *Conduct) Decided(record slot.Record) {
	now := c.current()
	if now != nil && now.Plan().Slot != record.Slot {
		now = nil
	}
	changes, of := c.take(now, record)
	if len(of) > 0 {
		c.emit("slot.figures", event(record.Slot, of))
	}
	for _, change := range changes { // whoever hears of it may ask for Members
		c.tell(change)
	}
}

// take returns what changes with a record, and the figures of its slot, if there are any.
func (c *Conduct) take(now *allreduce.Reduction, record slot.Record) (
	all []figures.Change, of []figures.Contribution,
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
	if now != nil && !c.params.Rootless && len(now.Plan().Ring) == 0 {
		var changes []figures.Change
		changes, of = c.published(now, record, members)
		all = append(all, changes...)
	}
	for _, o := range c.mu.watch.took(record, leaves) {
		all = append(all, c.mu.tracker.Note(record.Slot, o)...)
	}
	return all, of
}

// published takes in what the owners have published of a slot. mu is held.
func (c *Conduct) published(now *allreduce.Reduction, record slot.Record, members []slot.PeerID) (
	all []figures.Change, sums []figures.Contribution,
) {
	plan, published := now.Plan(), map[slot.PeerID]bool{}
	var segments []figures.Segment
	for _, s := range record.Segments {
		var offers []slot.Offer
		var peers []slot.PeerID
		for i, o := range record.Contributions {
			if s.Contributors.Has(i) {
				offers, peers = append(offers, o), append(peers, o.Peer)
			}
		}
		rows, done := now.Figures(s.Range, peers)
		if !done {
			continue // it has come another way: its owner had no chance to tell
		}
		owner := plan.Pieces[plan.PieceAt(s.Range.Begin)].Owner
		open := rows != nil && !(c.mu.slot == record.Slot && c.mu.differ[s.Range])
		if before, had := published[owner]; !had || before {
			published[owner] = open
		}
		if open {
			segments = append(segments, figures.Segment{Owner: owner, Usual: record.Usual, Offers: offers, Rows: rows})
		}
	}
	sums = figures.Sum(c.params, record.Slot, segments)
	against := chain.Against(record)
	for i, of := range sums {
		place := slices.IndexFunc(record.Contributions, func(o slot.Offer) bool { return o.Peer == of.Peer })
		sums[i].Marked = against.Has(place) // all that have figures are listed
		at := slot.Find(record.Members, of.Peer)
		sums[i].Newcomer = at < 0 || chain.Newcomer(record.Members[at])
	}
	all = c.mu.tracker.Add(record.Slot, sums)
	for _, p := range members {
		if open, known := published[p]; known {
			all = append(all, c.mu.tracker.Published(record.Slot, p, open)...)
		}
	}
	return all, sums
}

// tell makes an event where a finding begins or ends. What is about this peer itself is an alarm.
func (c *Conduct) tell(change figures.Change) {
	name := map[bool]string{true: "peer.stands_out", false: "peer.fits_in"}[change.Begins]
	if change.Kind == figures.OwnOpposite {
		name = map[bool]string{true: "trainer.alarm", false: "trainer.alarm_over"}[change.Begins]
	}
	c.emit(name, map[string]any{
		"about": change.Peer, "finding": string(change.Kind), "detail": change.Words, "slot": change.Slot,
	})
}

// Members returns what is known of each member.
func (c *Conduct) Members() map[slot.PeerID]figures.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.tracker.Members()
}
