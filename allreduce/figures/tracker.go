package figures

import (
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// HalfLife is the number of a peer's contributions after which one counts half in its moving
// figures.
const HalfLife = 3

// KeptSlots is for how many slots what was noted stands after the newest slot that gave it.
const KeptSlots = 8

// When a member stands out. Moving figures count once they are of leastSlots contributions. A
// finding ends later than it began, so that one at the border does not come and go.
const (
	leastSlots   = 3
	leastPeers   = 4   // among whom one can point the other way; of three, two cannot say which
	leastVoters  = 3   // that say which way is the usual one; of fewer, newcomers say it as well
	leastCommon  = .1  // least median cosine: below it the contributions have too little in common
	leastApart   = 8   // so many times as far from the median as members are in the middle
	markedLeast  = .02 // leastCommon for a member that owners mark
	strangeLeast = -.1 // leastCommon for a newcomer that owners have marked ever since it came
	strangeMost  = -.1 // greatest mean cosine of such a newcomer
	strangeApart = 3   // leastApart for it
	window       = 5   // contributions that together say which way a member points
	leastTurn    = .2  // a cosine that falls below 0 by less does so little by little
	lasts        = 3   // contributions that do not for which it is called so still
	ownOpposite  = -.8 // cosine at which a peer doubts itself among fewer peers
	mostLog      = 6   // of ratios, in powers of ten
	// mostAlike is how many members are named that another one is like
	mostAlike = 4
)

// Moving are a member's figures over its contributions, newer ones counting more. What is not known
// is NaN.
type Moving struct {
	Slots  uint64 // contributions that they are of
	Cosine float64
	Ratio  float64 // geometric mean
	Before float64
}

// Tracker keeps the figures of all members over the slots. The zero value is not of use: see
// NewTracker. It is used from one goroutine at a time.
type Tracker struct {
	self    slot.PeerID
	members map[slot.PeerID]*member
	listed  []slot.PeerID // members of the run at the slot that has begun
	found   findings
}

type member struct {
	newest                Contribution
	slot                  uint64
	slots                 uint64
	cosine, ratio, before moving
	cosines               []float64 // of the newest contributions, at most window of them
	gradual               bool      // its cosine fell below 0 little by little, and is there still
	marks                 int       // contributions in a row that owners have marked
	against               int       // above 0: it points the other way than others, or has lately
	old                   int       // contributions in a row that were about the outcome before
	unpublished           int       // slots in a row
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
			t.found.end(f)
			changes = append(changes, Change{f, slotNumber, false})
		}
	}
	t.listed = members
	return changes
}

// Add takes in the figures of the slot that has begun, and returns the findings that begin or end
// with them.
func (t *Tracker) Add(slotNumber uint64, of []Contribution) []Change {
	for _, c := range of {
		if slices.Contains(t.listed, c.Peer) {
			t.member(c.Peer).add(slotNumber, c)
		}
	}
	return t.judge(nil, slotNumber)
}

// Note takes in what is odd about a contribution to the slot that has begun. It stands for some
// slots.
func (t *Tracker) Note(slotNumber uint64, odd Finding) []Change {
	odd.Since, odd.noted = slotNumber, slotNumber
	if !slices.Contains(t.listed, odd.Peer) || !t.found.note(odd) {
		return nil
	}
	return []Change{{odd, slotNumber, true}}
}

// Published takes in whether an owner has published its figures of a slot.
func (t *Tracker) Published(slotNumber uint64, owner slot.PeerID, published bool) []Change {
	m := t.member(owner)
	if m.unpublished++; published {
		m.unpublished = 0
	}
	if m.unpublished > 0 && m.unpublished < leastSlots {
		return nil
	}
	return t.Set(nil, slotNumber, owner, Unpublished, !published)
}

// Set takes in whether a finding of any kind holds, and appends what that changes.
func (t *Tracker) Set(changes []Change, slotNumber uint64, peer slot.PeerID, kind Kind, holds bool) []Change {
	if c, is := t.found.set(slotNumber, peer, kind, holds); is {
		changes = append(changes, c)
	}
	return changes
}

// Findings lists what stands out, in the order of the peers.
func (t *Tracker) Findings() []Finding { return slices.Clone(t.found) }

// Member is what is known of one member.
type Member struct {
	Slot     uint64       // of its newest figures; 0: none are known
	Newest   Contribution // in that slot
	Moving   Moving
	Findings []Finding
}

// Members returns what is known of each member.
func (t *Tracker) Members() map[slot.PeerID]Member {
	all := map[slot.PeerID]Member{}
	for _, peer := range t.peers() {
		var m Member
		m.Newest, m.Slot, m.Moving, _ = t.Of(peer)
		all[peer] = m
	}
	for _, f := range t.found {
		m := all[f.Peer]
		m.Findings = append(m.Findings, f)
		all[f.Peer] = m
	}
	return all
}

// Of returns the newest figures of a member, their slot, and its moving figures.
func (t *Tracker) Of(peer slot.PeerID) (newest Contribution, slotNumber uint64, m Moving, ok bool) {
	of := t.members[peer]
	if of == nil || of.slots == 0 {
		return newest, 0, m, false
	}
	return of.newest, of.slot, Moving{
		of.slots, of.cosine.mean(), math.Pow(10, of.ratio.mean()), of.before.mean(),
	}, true
}

func (t *Tracker) member(peer slot.PeerID) *member {
	if t.members[peer] == nil {
		t.members[peer] = &member{}
	}
	return t.members[peer]
}

func (m *member) add(slotNumber uint64, c Contribution) {
	m.newest, m.slot = c, slotNumber
	m.slots++
	m.cosine.add(c.Cosine)
	if n := len(m.cosines); n > 0 && c.Cosine < 0 && m.cosines[n-1] >= 0 {
		m.gradual = m.cosines[n-1]-c.Cosine < leastTurn
	}
	if !math.IsNaN(c.Cosine) {
		m.cosines = append(m.cosines[max(0, len(m.cosines)+1-window):], c.Cosine)
	}
	if m.marks++; !c.Marked {
		m.marks = 0
	}
	m.ratio.add(max(-mostLog, min(mostLog, math.Log10(c.Ratio))))
	m.before.add(c.Before)
}

// judge says of all members whether they stand out.
func (t *Tracker) judge(changes []Change, slotNumber uint64) []Change {
	of := t.usual(slotNumber)
	for _, peer := range t.peers() {
		m := t.members[peer]
		if m.slot == slotNumber {
			m.count(of)
		}
		if m.slots < leastSlots {
			continue
		}
		for _, rule := range []struct {
			kind  Kind
			holds func(had bool) bool
		}{
			{Opposite, func(bool) bool { return m.against > 0 }},
			{TooLarge, func(had bool) bool { return m.ratio.mean() >= math.Log10(choose(had, 5, 8)) }},
			{OldNews, func(had bool) bool { return m.old >= leastSlots || had && m.old > 0 }},
		} {
			changes = t.Set(changes, slotNumber, peer, rule.kind, rule.holds(t.found.has(peer, rule.kind)))
		}
	}
	return t.doubt(changes, slotNumber, of.contributors)
}

// usual is what the contributions to one slot are like.
type usual struct {
	contributors   int     // whose cosine is known
	peers          int     // of these, whose mean cosine is known
	common, spread float64 // median of the mean cosines, and how far from it they lie
	newest         float64 // median of the cosines in this slot alone
	before         float64 // median of the cosines to the outcome before
}

// usual sums up the contributions to a slot. Where newcomers outvote the others, these point the
// other way than the outcome; so the median and the spread of members with a vote count, too.
func (t *Tracker) usual(slotNumber uint64) usual {
	var cosines, voters, befores, newest []float64
	for _, m := range t.members {
		if m.slot != slotNumber || math.IsNaN(m.newest.Cosine) {
			continue
		}
		befores, newest = append(befores, m.newest.Before), append(newest, m.newest.Cosine)
		if len(m.cosines) == window {
			cosines = append(cosines, m.cosineOfLate())
			if !m.newest.Newcomer {
				voters = append(voters, m.cosineOfLate())
			}
		}
	}
	u := usual{
		len(befores), len(cosines), median(cosines), deviation(cosines), median(newest), median(befores),
	}
	if len(voters) >= leastVoters {
		u.common, u.spread = min(u.common, median(voters)), min(u.spread, deviation(voters))
	}
	return u
}

// cosineOfLate is the mean over the newest contributions, which says more than a single one: in
// rounds of few steps noise is most of what each of them is.
func (m *member) cosineOfLate() float64 { return mean(m.cosines) }

// cosineMarked is the mean over so many contributions as must be marked.
func (m *member) cosineMarked() float64 { return mean(m.cosines[max(0, len(m.cosines)-leastSlots):]) }

// mean is NaN of no numbers.
func mean(x []float64) (mean float64) {
	for _, v := range x {
		mean += v
	}
	return mean / float64(len(x))
}

// count takes in whether a member's contributions are unlike those of others.
func (m *member) count(of usual) {
	if m.old++; !old(m.newest.Before, of.before) {
		m.old = 0
	}
	m.against = max(m.against-1, 0)
	if m.opposes(of) {
		m.against = lasts
	}
}

// opposes says whether a member's newest contributions point the other way than those of others.
func (m *member) opposes(of usual) bool {
	switch {
	case of.contributors < leastPeers:
		return false
	case of.peers >= leastPeers && m.turned() && of.opposite(m.cosineOfLate(), leastCommon):
		return true
	case m.marked() && of.newest > 0 && of.opposite(m.cosineMarked(), markedLeast):
		return true
	}
	late := m.cosineOfLate()
	return m.strange() && late <= strangeMost && of.common >= strangeLeast && of.common-late >= strangeApart*of.spread
}

// marked says whether owners mark a member's newest contributions, each in more than half of its
// elements. That is more than liars among them can do that own less than half, and most members
// with a vote then point the other way than it does. So its cosines may say less by themselves:
// where three of eight point the other way, little is left that the others have in common with the
// outcome. Near an optimum of members with different data owners mark honest contributions slot
// after slot, too: those come to that little by little, or so fast that the newest contributions of
// the others have nothing in common with the outcome either.
func (m *member) marked() bool { return m.marks >= leastSlots && !m.gradual }

// strange says whether owners have marked a newcomer ever since it came. Where two of six send the
// opposite of what they compute, the other four may have nothing in common with the outcome; so
// less is asked of that.
func (m *member) strange() bool {
	return m.newest.Newcomer && m.marks >= window && uint64(m.marks) == m.slots && !m.gradual
}

// turned says whether none of a member's newest contributions points the way of the others. Those
// of honest peers come to that little by little, as the model comes to rest: one sooner than
// another, and the outcome is made of what is left. A member that turns round does so at once; one
// that turns little by little is not told from these, and is not named.
func (m *member) turned() bool {
	return len(m.cosines) == window && slices.Max(m.cosines) < 0 && !m.gradual
}

// opposite says whether contributions point the other way than most do. The median cosine must be
// positive: near an optimum of peers with different data, what they send adds up to about nothing,
// and each of them points the other way than the sum of the others. And they must lie far outside
// of where the others lie: on the way there the cosines are all over the place.
func (u usual) opposite(cosine, leastCommon float64) bool {
	return u.common >= leastCommon && cosine <= -.6*u.common && u.common-cosine >= leastApart*u.spread
}

// old says whether a contribution is about the outcome before, and those of others are not: where
// gradients hardly change from slot to slot nobody can tell.
func old(cosine, others float64) bool { return cosine >= .98 && others <= .9 }

// deviation is the median distance from the median.
func deviation(x []float64) float64 {
	middle := median(x)
	far := make([]float64, len(x))
	for i, v := range x {
		far[i] = math.Abs(v - middle)
	}
	return median(far)
}

// doubt raises an alarm where this peer points the other way than the others. Among few peers that
// may be the fault of another one: then nobody is named, but each looks at itself, unless another
// one stands out.
func (t *Tracker) doubt(changes []Change, slotNumber uint64, peers int) []Change {
	self := t.members[t.self]
	holds := self != nil && peers < leastPeers && self.slots >= leastSlots && self.cosine.mean() <= ownOpposite
	for _, f := range t.found {
		holds = holds && (f.Peer == t.self || f.Kind == Unpublished)
	}
	return t.Set(changes, slotNumber, t.self, OwnOpposite, holds || t.found.has(t.self, Opposite))
}

func (t *Tracker) peers() (all []slot.PeerID) {
	for peer := range t.members {
		all = append(all, peer)
	}
	slices.Sort(all)
	return all
}

func choose(had bool, yes, no float64) float64 {
	if had {
		return yes
	}
	return no
}

// moving is a mean in which a number counts half after HalfLife others.
type moving struct{ sum, weight float64 }

func (m *moving) add(v float64) {
	if math.IsNaN(v) {
		return
	}
	fade := math.Exp2(-1. / HalfLife)
	m.sum, m.weight = m.sum*fade+v, m.weight*fade+1
}

// mean is NaN as long as there is no number.
func (m *moving) mean() float64 { return m.sum / m.weight }
