package chain

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Anybody can found a run, sign records of it with keys of its own, and state in a summary what it
// likes. A certificate by such keys proves nothing about the numbers. So whoever opens a past takes
// none of them for given: what the window and the links tell is compared with them, and all else is
// held to what honest records can lead to. The code that follows a chain relies on that.

// maxHeight is far above the height of any run, and far below where sums of heights overflow.
const maxHeight = 1 << 48

// statedPast is a chain whose records below the floor nobody here has seen, with the links that
// were verified below it.
type statedPast struct {
	*Chain
	links verifiedLinks
}

// check says whether the summary and the window may be what honest records lead to.
func (s statedPast) check() error {
	if err := s.checkWindow(); err != nil {
		return err
	}
	return s.checkStated()
}

// checkWindow says whether the records of a window have the form that the rules give to records
// that follow each other, and change the electors where the links say so.
func (s statedPast) checkWindow() error {
	before := s.links.floor
	for h := s.Floor() + 1; h <= s.Height(); h++ {
		r := s.At(h)
		_, listed := s.past.links[h]
		switch link := isLink(r, before); {
		case r.Run != s.rules.Run || r.Height != h || r.Slot >= h:
			return Invalid("a record of slot %d at height %d below a summary", r.Slot, h)
		case h > s.Floor()+1 && !follows(r, s.At(h-1)):
			return Invalid("records below a summary that do not follow each other, at height %d", h)
		case link != listed || link && s.past.links[h] != s.Hash(h):
			return Invalid("another link at height %d than the record below the summary", h)
		}
		before = r.Electors()
	}
	return nil
}

// follows says whether the slot and the work of a record may come after those of the one before.
func follows(r, before slot.Record) bool {
	switch {
	case r.Kind == slot.Step:
		n := len(r.Contributions)
		return r.Slot == before.Slot+1 && r.Work >= before.Work && n > 0 && n <= slot.MaxMembers
	case r.Kind == slot.Fork:
		return r.Slot == before.Slot && r.Work <= before.Work
	}
	return r.Slot == before.Slot && r.Work == before.Work
}

// checkStated says whether a summary may be what the records up to the tip, of which the window is
// held, lead to. The window has as many steps as the rules look back.
func (s statedPast) checkStated() error {
	tip := s.Tip()
	what := ""
	switch {
	case s.founding != s.links.founding || s.branch != s.links.branch || s.linked != s.links.all:
		what = "with other links"
	case !s.statesStep():
		what = "with another newest step"
	case !slices.Equal(s.electors, tip.Electors()):
		what = "with other electors"
	case !s.statesShared():
		what = "with other members of long ago"
	case !s.statesSpent():
		what = "with other contributions"
	case !s.access.stated(tip) || !s.statesNames():
		what = "with an impossible admission"
	case !s.statesNewcomers():
		what = "with other newcomers"
	case !s.links.forked(s.provisional):
		what = "with forks that are none"
	case !s.seating.stated(tip):
		what = "with impossible seats"
	case !s.assigner.stated(tip):
		what = "with impossible parts"
	default:
		return nil
	}
	return Invalid("a summary at height %d %s", s.Height(), what)
}

func (s statedPast) statesStep() bool {
	for h := s.Height(); h > s.Floor()+1; h-- {
		if r := s.At(h); r.Kind == slot.Step {
			return s.stepHeight == h && s.stepWork == r.Work-s.At(h-1).Work
		}
	}
	return false
}

func (s statedPast) statesShared() bool {
	for h := s.Height(); h > s.Floor(); h-- {
		if len(s.At(h).Members) > 1 {
			return s.shared == h
		}
	}
	return s.shared <= s.Floor()
}

// newestContributions returns what the steps of the window list.
func (s statedPast) newestContributions() map[slot.PeerID]spending {
	newest := map[slot.PeerID]spending{}
	for _, commit := range s.commits {
		for _, o := range commit.Record.Contributions {
			newest[o.Peer] = spending{o.Seq, commit.Record.Slot}
		}
	}
	return newest
}

// statesSpent says whether each peer's newest contribution is that of the window. Older ones of
// members are known as well; those of other peers are forgotten.
func (s statedPast) statesSpent() bool {
	tip, newest := s.Tip(), s.newestContributions()
	for p, n := range newest {
		lately := n.slot+s.rules.MaxStaleness >= tip.Slot
		if lately && s.spent[p] != n || !s.newcomers.Contributed(p) && !s.access.forgets(tip) {
			return false
		}
	}
	for p, v := range s.spent {
		n, known := newest[p]
		switch {
		case known && n != v, !known && v.slot > s.At(s.Lowest()).Slot,
			slot.Find(tip.Members, p) < 0 && v.slot+s.rules.MaxStaleness < tip.Slot:
			return false
		}
	}
	return true
}

func (a *Access) stated(tip slot.Record) bool {
	for p, r := range a.removed {
		if r.Height == 0 || r.Height > tip.Height || r.Record.IsZero() || slot.Find(tip.Members, p) >= 0 {
			return false
		}
	}
	for _, n := range a.turns {
		if n == 0 || n > tip.Height {
			return false
		}
	}
	absent := func(m slot.Member) bool { return a.ever[m.Peer] != tip.Height }
	return a.keys[slot.Root{}] && a.keys[a.key] && !slices.ContainsFunc(tip.Members, absent)
}

// statesNewcomers says whether the newcomers of the open slot are those that the window lists.
func (s statedPast) statesNewcomers() bool {
	step := s.At(s.stepHeight)
	now := Newcomers{proven: s.newcomers.proven}
	now.nextSlot(step)
	for h := s.stepHeight + 1; h <= s.Height(); h++ {
		now.admitted += now.unproven(s.At(h).Members, s.At(h-1).Members)
	}
	n := s.newcomers
	return n.quota == now.quota && n.admitted == now.admitted
}

func (s seating) stated(tip slot.Record) bool {
	for i, m := range s.leftOut {
		_, absent := FindMember(tip.Absent, m.Peer, m.Incarnation)
		listed, is := FindMember(tip.Members, m.Peer, m.Incarnation)
		if i > 0 && s.leftOut[i-1].Peer >= m.Peer || !absent && (!is || listed.Elects()) {
			return false
		}
	}
	return s.started && s.replaced <= tip.Height
}

// maxPieces bounds the pieces that came back, for each slot that members have shares for. Honest
// runs have about as many as members that went: the bound is for many more.
const maxPieces = 16 * slot.MaxMembers

func (d *assigner) stated(tip slot.Record) bool {
	stale, ahead := d.rules.MaxStaleness, d.rules.Ahead
	first := max(tip.Slot+1, stale+1) - stale
	slots := tip.Slot + 1 + ahead - d.first + 1
	if d.first != first || uint64(len(d.shares)) != slots || uint64(len(d.back)) > slots*maxPieces ||
		d.next/(slot.MaxMembers*(ahead+1)) > tip.Height {
		return false
	}
	for i, p := range d.back {
		if !d.holds(p) || i > 0 && d.back[i-1].part >= p.part {
			return false
		}
	}
	for _, of := range d.shares {
		for i, s := range of {
			if !d.holds(s.piece) || i > 0 && of[i-1].peer >= s.peer {
				return false
			}
		}
	}
	return true
}

// holds says whether a piece was ever assigned, and has inner steps left.
func (d *assigner) holds(p piece) bool {
	return p.part < d.next && (p.done == 0 || p.done < d.rules.PartSteps)
}
