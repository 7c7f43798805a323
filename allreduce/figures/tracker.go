package figures

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// KeptSlots is for how many slots what was noted stands after the newest slot that gave it.
const KeptSlots = 8

// When a member stands out, by the medians over its newest contributions. A finding ends later than
// it began, so that one at the border does not come and go.
const (
	window      = 5   // contributions that a median is of
	leastRatios = 3   // after which a member may be called too large
	leastPeers  = 4   // among whom one can point the other way; of three, two cannot say which
	leastCommon = .1  // median of all members' cosines, below which they have too little in common
	opposite    = -.2 // cosine below which a member points the other way,
	notOpposite = -.1 // and above which it does not any more
	tooLarge    = 8   // times the median norm, which is too large,
	notTooLarge = 5   // and below which it is not any more
	ownOpposite = -.8 // cosine at which a peer doubts itself among fewer peers
	mostAlike   = 4   // members that are named as those that another one is like
)

// Tracker keeps the figures of all members over the slots. The zero value is not of use: see
// NewTracker. It is used from one goroutine at a time.
type Tracker struct {
	self    slot.PeerID
	members map[slot.PeerID]*member
	listed  []slot.PeerID // members of the run at the slot that has begun
	found   []Finding     // that hold, in their order
}

type member struct {
	newest          Contribution
	slot            uint64
	cosines, ratios []float64 // that are known of the newest contributions, at most window of them
}

// NewTracker makes the tracker of a peer.
func NewTracker(self slot.PeerID) *Tracker {
	return &Tracker{self: self, members: map[slot.PeerID]*member{}}
}

// Begin begins a slot, and returns the findings that end with it: peers that are no members are
// forgotten, and so is what was noted some time ago, or of slots that are decided anew.
func (t *Tracker) Begin(slotNumber uint64, members []slot.PeerID) (changes []Change) {
	for peer := range t.members {
		if !slices.Contains(members, peer) {
			delete(t.members, peer)
		}
	}
	for _, f := range slices.Clone(t.found) {
		old := f.noted > 0 && (f.noted+KeptSlots < slotNumber || slotNumber <= f.noted)
		if old || !slices.Contains(members, f.Peer) {
			changes = t.set(changes, slotNumber, f, false)
		}
	}
	t.listed = members
	return changes
}

// Add takes in the figures of the slot that has begun, and returns the findings that begin or end
// with them.
func (t *Tracker) Add(slotNumber uint64, of []Contribution) (changes []Change) {
	for _, c := range of {
		if !slices.Contains(t.listed, c.Peer) {
			continue
		}
		m := t.members[c.Peer]
		if m == nil {
			m = &member{}
			t.members[c.Peer] = m
		}
		m.newest, m.slot = c, slotNumber
		m.cosines, m.ratios = push(m.cosines, c.Cosine), push(m.ratios, c.Ratio)
	}
	contributors, common := t.common(slotNumber)
	for _, c := range of {
		m := t.members[c.Peer]
		if m == nil {
			continue
		}
		turned := contributors >= leastPeers && common >= leastCommon &&
			m.cosine() < t.border(c.Peer, Opposite, opposite, notOpposite)
		large := len(m.ratios) >= leastRatios &&
			median(m.ratios) > t.border(c.Peer, TooLarge, tooLarge, notTooLarge)
		changes = t.set(changes, slotNumber, plain(c.Peer, Opposite), turned)
		changes = t.set(changes, slotNumber, plain(c.Peer, TooLarge), large)
	}
	return t.doubt(changes, slotNumber, contributors)
}

// common says how many members with a known cosine contributed to a slot, and what the median of
// their cosines is. Near an optimum of peers with different data that is about 0: what they send
// adds up to nothing, and each of them points the other way than the sum of the others.
func (t *Tracker) common(slotNumber uint64) (contributors int, cosine float64) {
	var cosines []float64
	for _, m := range t.members {
		if m.slot == slotNumber && !math.IsNaN(m.newest.Cosine) {
			contributors++
			cosines = append(cosines, m.cosine())
		}
	}
	return contributors, median(cosines)
}

// push adds a number that is known to the newest ones.
func push(x []float64, v float64) []float64 {
	if math.IsNaN(v) {
		return x
	}
	return append(x[max(0, len(x)+1-window):], v)
}

// cosine is the median of the newest contributions, which says more than a single one: in rounds of
// few steps noise is most of what each of them is. It is NaN as long as they are too few.
func (m *member) cosine() float64 {
	if len(m.cosines) < window {
		return math.NaN()
	}
	return median(m.cosines)
}

// border is where a finding begins, or where one that holds ends.
func (t *Tracker) border(peer slot.PeerID, kind Kind, begins, ends float64) float64 {
	if t.has(peer, kind) {
		return ends
	}
	return begins
}

// doubt raises an alarm where this peer points the other way than the others. Among few peers that
// may be the fault of another one: then nobody is named, but each looks at itself, unless another
// one stands out.
func (t *Tracker) doubt(changes []Change, slotNumber uint64, peers int) []Change {
	self := t.members[t.self]
	holds := self != nil && peers < leastPeers && self.cosine() <= ownOpposite
	for _, f := range t.found {
		holds = holds && f.Peer == t.self
	}
	return t.set(changes, slotNumber, plain(t.self, OwnOpposite), holds || t.has(t.self, Opposite))
}

// plain is a finding that figures tell.
func plain(peer slot.PeerID, kind Kind) Finding {
	return Finding{Peer: peer, Kind: kind, Words: kind.Words()}
}

// Note takes in what is odd about a contribution to the slot that has begun. It stands for some
// slots. Of the members that another one is like, the first few are named.
func (t *Tracker) Note(slotNumber uint64, odd Finding) []Change {
	alike := 0
	for _, f := range t.found {
		if f.Peer == odd.Peer && f.Kind == odd.Kind && f.Other != odd.Other {
			alike++
		}
	}
	if alike >= mostAlike || !slices.Contains(t.listed, odd.Peer) {
		return nil
	}
	odd.noted = slotNumber
	return t.set(nil, slotNumber, odd, true)
}

// Member is what is known of one member.
type Member struct {
	Slot     uint64       // of its newest figures; 0: none are known
	Newest   Contribution // in that slot
	Findings []Finding
}

// Members returns what is known of each member.
func (t *Tracker) Members() map[slot.PeerID]Member {
	all := map[slot.PeerID]Member{}
	for peer, m := range t.members {
		all[peer] = Member{Slot: m.slot, Newest: m.newest}
	}
	for _, f := range t.found {
		m := all[f.Peer]
		m.Findings = append(m.Findings, f)
		all[f.Peer] = m
	}
	return all
}
