package chain

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// naiveMember is what BYZANTINE 5 says of one incarnation, followed over whole chains in the most
// obvious way.
type naiveMember struct {
	credit, since, seat int
	absent              bool
}

type naive struct {
	of       map[slot.PeerID]*naiveMember
	incs     map[slot.PeerID]slot.Incarnation
	height   int
	started  bool
	replaced int
}

func (n *naive) seats() (count int) {
	for _, m := range n.of {
		if m.seat > 0 {
			count++
		}
	}
	return count
}

// naiveQuorum says whether some of n electors are a quorum: so many are there, and senior says
// whether the one with the oldest seat is.
func naiveQuorum(n, stay int, senior bool) bool {
	switch n {
	case 0:
		return false
	case 1:
		return stay == 1
	case 2:
		return stay == 2 || stay == 1 && senior
	case 3:
		return stay >= 2
	}
	return stay >= n-(n-1)/3
}

// seatworld draws a chain: peers contribute, join, vanish, leave, come back, get evicted, and get
// seats.
type seatworld struct {
	world
	naive
	t     *rapid.T
	start int
	max   int
}

func newSeatworld(t *rapid.T, start, most int) *seatworld {
	rules := seatRules(start)
	rules.MaxElectors = most
	w := &seatworld{
		world: world{nil, New(rules, slot.Root{})}, t: t, start: start, max: most,
		naive: naive{of: map[slot.PeerID]*naiveMember{}, incs: map[slot.PeerID]slot.Incarnation{"a": 1}, height: 1},
	}
	r := slot.Record{Run: rules.Run, Height: 1, Prev: w.TipHash()}
	w.Push(wire.Commit{Record: w.SettleFork(r, turns("a"))})
	w.of["a"] = &naiveMember{credit: 32, since: 1, seat: 1}
	w.started = start <= 1
	return w
}

// next draws one record, and follows it in the naive way. A draw that the rules forbid is refused
// by Check, and leaves the world as it was.
func (w *seatworld) next(peers string, trainers map[slot.PeerID]bool) {
	t := w.t
	before := map[slot.PeerID]*naiveMember{}
	for p, m := range w.of {
		c := *m
		before[p] = &c
	}
	contributors := ""
	for _, m := range w.Members() {
		if trainers[m.Peer] && w.TakesStep() && rapid.IntRange(0, 3).Draw(t, "contributes") > 0 {
			contributors += string(m.Peer)
		}
	}
	share := uint64(rapid.SampledFrom([]int{3, 4, 8}).Draw(t, "share"))
	if len(contributors) < 2 {
		share = seatElements
	}
	r := w.record(contributors, share)
	var turn Turnover
	deleted := map[slot.PeerID]bool{}
	for i, c := range peers {
		p := slot.PeerID(c)
		_, entry := w.of[p]
		listed := slot.Find(w.Members(), p) >= 0
		inc := cmp.Or(w.incs[p], 1)
		switch rapid.IntRange(0, 11).Draw(t, "fate of "+string(p)) {
		case 0: // lost, or stays away
			continue
		case 1:
			if i > 0 {
				deleted[p] = entry
				continue
			}
		case 2:
			if i > 0 && entry {
				inc++
			}
		case 3:
			if entry && i > 3 && rapid.IntRange(0, 9).Draw(t, "lies") == 0 {
				turn.Evicted = append(turn.Evicted, p)
				continue
			}
		default:
			if !listed && rapid.IntRange(0, 2).Draw(t, "comes") > 0 {
				continue
			}
		}
		if slices.Contains(w.Tip().Evicted, p) {
			continue
		}
		w.incs[p] = inc
		turn.Listed = append(turn.Listed, slot.Member{Peer: p, Incarnation: inc})
	}
	turn.Deleted = func(m slot.Member) bool { return deleted[m.Peer] }
	if rapid.Bool().Draw(t, "a seat") && len(turn.Listed) > 0 {
		turn.Seat = rapid.SampledFrom(turn.Listed).Draw(t, "whose").Peer
	}
	w.follow(r, turn, deleted, contributors, share)
	r = w.Settle(r, turn)
	const late = 99 * slot.Tries // when no elector is asked for
	err := w.Check(r, late)
	if want := w.valid(before, turn) && (r.Kind != slot.Step || w.checkSets(r, late) == nil); (err == nil) != want {
		t.Fatalf("after %s: %s, a seat for %q, is valid: %v; %v", showMembers(w.Tip()), showMembers(r),
			string(turn.Seat), want, err)
	}
	if err != nil {
		w.of, w.height = before, w.height-1
		for _, m := range w.Members() {
			w.incs[m.Peer] = m.Incarnation
		}
		for _, m := range w.Tip().Absent {
			w.incs[m.Peer] = m.Incarnation
		}
		return
	}
	w.accepted(before)
	w.Push(wire.Commit{Record: r})
	w.compare(r)
}

// follow changes the naive world as the record says, whether or not it is valid.
func (w *seatworld) follow(
	r slot.Record, turn Turnover, deleted map[slot.PeerID]bool, contributors string, share uint64,
) {
	w.height++
	old := w.of
	w.of = map[slot.PeerID]*naiveMember{}
	for p, m := range old {
		c := *m
		if r.Kind == slot.Step {
			in := slices.Contains([]rune(contributors), rune(p[0])) &&
				(2*share >= seatElements || contributors[0] == p[0])
			if in {
				c.credit = min(c.credit+8, 256)
			} else {
				c.credit = max(c.credit-1, 0)
			}
		}
		i := slot.Find(turn.Listed, p)
		same := slices.ContainsFunc(slices.Concat(w.Members(), w.Tip().Absent), func(e slot.Member) bool {
			return i >= 0 && e.Peer == p && e.Incarnation == turn.Listed[i].Incarnation
		})
		switch {
		case i >= 0 && same:
			c.absent = false
			w.of[p] = &c
		case i >= 0 || deleted[p] || slices.Contains(turn.Evicted, p) || c.credit == 0:
		default:
			c.absent, c.seat = true, 0
			w.of[p] = &c
		}
	}
	entries := len(w.of)
	for _, m := range turn.Listed {
		if w.of[m.Peer] == nil {
			w.of[m.Peer] = &naiveMember{since: w.height}
			if !w.started && entries < w.start {
				w.of[m.Peer].credit = 32
				entries++
			}
		}
	}
}

// valid says whether the record is, and gives the seat if it is.
func (w *seatworld) valid(before map[slot.PeerID]*naiveMember, turn Turnover) bool {
	electors, oldest, stay := 0, slot.PeerID(""), w.seats()
	for p, m := range before {
		if m.seat > 0 {
			electors++
			if oldest == "" || m.seat < before[oldest].seat || m.seat == before[oldest].seat && p < oldest {
				oldest = p
			}
		}
	}
	if stay == 0 {
		return false
	}
	if turn.Seat == "" {
		return true
	}
	need, waiting, least := 32, 0, 1000
	if electors < 3 {
		need = 8
	}
	var loser *naiveMember
	var loserPeer slot.PeerID
	for p, m := range w.of {
		if m.absent {
			continue
		}
		if m.seat == 0 && m.credit >= need {
			waiting++
		}
		if m.seat > 0 && (m.credit < least || m.credit == least &&
			(m.seat > loser.seat || m.seat == loser.seat && p > loserPeer)) {
			least, loser, loserPeer = m.credit, m, p
		}
	}
	m := w.of[turn.Seat]
	if m.seat > 0 || m.credit < need {
		return false
	}
	most := cmp.Or(w.max, 31)
	goal := stay + 1
	for _, s := range []int{4, 7, 10, 13, 16} {
		if stay >= 4 && s > stay {
			goal = s
			break
		}
	}
	if goal > most {
		if w.replaced > 0 && w.height < w.replaced+8 || m.credit < 32 || m.credit < 2*least {
			return false
		}
		if !naiveQuorum(stay, stay-1, true) {
			return false
		}
		loser.seat = 0
	} else if stay >= 4 && stay+waiting < goal || !naiveQuorum(stay+1, stay, true) {
		return false
	}
	m.seat = w.height
	return true
}

func (w *seatworld) accepted(before map[slot.PeerID]*naiveMember) {
	listed := 0
	for p, m := range w.of {
		if !m.absent {
			listed++
			if o := before[p]; o != nil && o.seat > 0 && m.seat == 0 && m.since == o.since {
				w.replaced = w.height
			}
		}
	}
	w.started = w.started || listed >= w.start || w.record("", 0).Slot > 0
}

func (w *seatworld) compare(r slot.Record) {
	if len(r.Members)+len(r.Absent) != len(w.of) {
		w.t.Fatalf("%d entries: %s", len(w.of), showMembers(r))
	}
	for i, m := range slices.Concat(r.Members, r.Absent) {
		n := w.of[m.Peer]
		if n == nil || n.absent != (i >= len(r.Members)) || int(m.Credit) != n.credit || int(m.Since) != n.since ||
			int(m.Seat) != n.seat {
			w.t.Fatalf("%s is %+v, want %+v: %s", m.Peer, m, n, showMembers(r))
		}
	}
}

// Chains of random turnovers have the members that the rules say, as the naive reference has them.
func TestSeatsOfRandomChains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, 7}).Draw(t, "max")
		w := newSeatworld(t, rapid.IntRange(1, 5).Draw(t, "start"), most)
		trainers := map[slot.PeerID]bool{}
		for _, p := range "abcdefghij" {
			trainers[slot.PeerID(p)] = rapid.IntRange(0, 4).Draw(t, "trains") > 0
		}
		for range 60 {
			w.next("abcdefghij", trainers)
		}
	})
}

// Strangers that never contribute never get a vote, however many they are and whatever leaders do
// (a8).
func TestStrangersNeverVote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newSeatworld(t, rapid.IntRange(1, 3).Draw(t, "start"), 0)
		w.next("abc", nil)
		honest := map[slot.PeerID]bool{"a": true, "b": true, "c": true}
		for !w.started { // whoever sets start_peers trusts the first ones
			r := w.Settle(w.record("", 0), turns("abc"))
			w.Push(wire.Commit{Record: r})
			w.of, w.started, w.height = map[slot.PeerID]*naiveMember{}, true, int(r.Height)
			for _, m := range r.Members {
				w.of[m.Peer] = &naiveMember{credit: int(m.Credit), since: int(m.Since), seat: int(m.Seat)}
			}
		}
		for range 60 {
			w.next("abcuvwxyz", honest)
			for _, m := range w.Electorate() {
				if !honest[m.Peer] {
					t.Fatalf("%s has a vote: %s", m.Peer, showMembers(w.Tip()))
				}
			}
		}
	})
}
