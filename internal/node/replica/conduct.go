package replica

import (
	"sync"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/figures"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// conduct follows who contributes what, by what the owners publish. It is for people: figures that
// do not come are missing, and nothing waits for them. It implements auditor.Figures.
type conduct struct {
	params  allreduce.Params
	current func() *allreduce.Reduction // nil: none runs
	emit    func(name string, fields map[string]any)

	mu struct {
		sync.Mutex
		tracker *figures.Tracker
		slot    uint64              // that differ is about
		differ  map[slot.Range]bool // ranges with other figures than their owners have signed
	}
}

func newConduct(self slot.PeerID, params allreduce.Params, current func() *allreduce.Reduction,
	emit func(string, map[string]any),
) *conduct {
	c := &conduct{params: params, current: current, emit: emit}
	c.mu.tracker, c.mu.differ = figures.NewTracker(self), map[slot.Range]bool{}
	return c
}

// Of implements auditor.Figures.
func (c *conduct) Of(slotNumber uint64, r slot.Range, peers []slot.PeerID) ([]slot.FigureRow, bool) {
	now := c.current()
	if now == nil || now.Plan().Slot != slotNumber {
		return nil, false
	}
	rows, _ := now.Figures(r, peers)
	return rows, rows != nil
}

// Differ implements auditor.Figures.
func (c *conduct) Differ(slotNumber uint64, r slot.Range) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.slot != slotNumber {
		c.mu.slot = slotNumber
		clear(c.mu.differ)
	}
	c.mu.differ[r] = true
}

// decided takes in the figures of a slot that has its record, while its reduction is there.
func (c *conduct) decided(record slot.Record, members []slot.PeerID) {
	now := c.current()
	if now == nil || now.Plan().Slot != record.Slot || c.params.Rootless || len(now.Plan().Ring) > 0 {
		return
	}
	for _, change := range c.take(now, record, members) {
		c.tell(change)
	}
}

func (c *conduct) take(now *allreduce.Reduction, record slot.Record, members []slot.PeerID) (all []figures.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
			segments = append(segments, figures.Segment{Owner: owner, Offers: offers, Rows: rows})
		}
	}
	all = c.mu.tracker.Add(record.Slot, figures.Sum(c.params, record.Slot, segments), members)
	for _, p := range members {
		if open, known := published[p]; known {
			all = append(all, c.mu.tracker.Published(record.Slot, p, open)...)
		}
	}
	return all
}

// tell makes an event where a finding begins or ends. What is about this peer itself is an alarm.
func (c *conduct) tell(change figures.Change) {
	name := map[bool]string{true: "peer.stands_out", false: "peer.fits_in"}[change.Begins]
	if change.Kind == figures.OwnOpposite {
		name = map[bool]string{true: "trainer.alarm", false: "trainer.alarm_over"}[change.Begins]
	}
	c.emit(name, map[string]any{
		"about": change.Peer, "finding": string(change.Kind), "detail": change.Words, "slot": change.Slot,
	})
}

// members returns what is known of each member.
func (c *conduct) members() map[slot.PeerID]figures.Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.tracker.Members()
}
