package membership

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// forgetful is a run of four members that have forgotten their oldest records, but for those that
// keep all.
func forgetful(t *testing.T, byzantine bool, archives ...string) *lab {
	t.Helper()
	rules := labRules()
	rules.StartPeers, rules.SummaryEvery, rules.MaxStaleness, rules.Byzantine = 4, 16, 1, byzantine
	timing := labTiming
	timing.ForkAfter = 10 * time.Second
	l := newLab(t, rules, timing)
	for _, n := range "ABCD" {
		p := l.add(string(n))
		if p.archives = slices.Contains(archives, p.name); p.archives {
			p.start()
		}
	}
	l.connect()
	l.until(t, 110, l.peers...)
	for _, p := range l.peers {
		if p.m.chain.Floor() == 0 && !p.archives {
			t.Fatalf("%s holds all of %d records", p.name, p.m.chain.Height())
		}
	}
	return l
}

// until runs the lab until peers have applied a slot.
func (l *lab) until(t *testing.T, s uint64, peers ...*labPeer) {
	t.Helper()
	l.within(t, time.Hour, fmt.Sprintf("slot %d is applied by all", s), func() bool {
		return !slices.ContainsFunc(peers, func(p *labPeer) bool { return p.m.model.state.slot < s || !p.m.member() })
	})
}

func TestNewcomerStartsFromASummary(t *testing.T) {
	t.Parallel()
	for _, byzantine := range []bool{false, true} {
		l := forgetful(t, byzantine)
		for _, p := range l.peers {
			p.crash()
			p.start() // what is on disk is enough to go on
		}
		e := l.add("E")
		l.connect()
		l.until(t, l.peers[0].view().AppliedSlot+20, l.peers...)
		if e.m.chain.Floor() == 0 || e.m.chain.Founding() != l.peers[0].m.chain.Founding() {
			t.Errorf("byzantine %v: the newcomer holds all of %d records", byzantine, e.m.chain.Height())
		}
		e.crash()
		e.start()
		l.until(t, l.peers[0].view().AppliedSlot+5, l.peers...)
	}
}

// A member that comes back when the records that it lacks are forgotten goes on from a summary.
func TestReturningPeerStartsFromASummary(t *testing.T) {
	t.Parallel()
	for _, byzantine := range []bool{false, true} {
		l := forgetful(t, byzantine)
		d := l.peers[3]
		d.crash()
		away := l.peers[0].view().AppliedSlot
		l.until(t, away+110, l.peers[:3]...)
		d.start()
		tip := d.m.chain.Height()
		l.until(t, away+120, l.peers...)
		if d.m.chain.Start() <= tip || d.view().ChainSwitches > 0 {
			t.Errorf("byzantine %v: at height %d it began with a summary at %d, after %d switches", byzantine, tip,
				d.m.chain.Start(), d.view().ChainSwitches)
		}
		told := slices.ContainsFunc(l.log, func(s string) bool {
			return strings.Contains(s, string(EventSummary)) && strings.Contains(s, "are not fetched")
		})
		if v := d.view(); v.Floor == 0 || v.Floor > d.m.chain.Start() || !told {
			t.Errorf("byzantine %v: the view says that records are held from above %d on, and no event says why",
				byzantine, v.Floor)
		}
	}
}

// The pin of a ticket that is older than the records that are held admits its bearer if it is a
// link, and is refused with a word about what to do if it is not.
func TestPinsOfOldTickets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pin  func(*chain.Chain) slot.Root
		good bool
	}{
		"a link":         {(*chain.Chain).Lasting, true},
		"between two":    {func(c *chain.Chain) slot.Root { return c.TipHash() }, false},
		"no record ever": {func(*chain.Chain) slot.Root { return slot.Hash([]byte("none")) }, false},
	} {
		l := forgetful(t, false)
		pin := c.pin(l.peers[0].m.chain)
		l.until(t, l.peers[0].view().AppliedSlot+120, l.peers...)
		l.pins = map[string]slot.Root{"E": pin}
		e := l.add("E")
		l.connect()
		joined := l.run(20*time.Second, func() bool { return e.m.member() })
		if joined != c.good || joined && !e.m.chain.Pinned() {
			t.Errorf("%s: it joined: %v\n%s", name, joined, l.show())
		}
		told := slices.ContainsFunc(l.log, func(s string) bool { return strings.Contains(s, "the pinned record") })
		if told == c.good {
			t.Errorf("%s: it was told that the pin is not shown: %v", name, told)
		}
	}
}

// A peer went back to the very record up to which it keeps a summary: it cannot show that, since
// the record that names it was given up, but goes on.
func TestASummaryWithoutItsRecordIsNotShown(t *testing.T) {
	m := forgetful(t, false).peers[0].m
	m.chain = m.chain.UpTo(m.chain.Past().Height)
	if err := m.catchup.past.show("nobody", 0); !errors.Is(err, ErrStale) {
		t.Errorf("it is shown: %v", err)
	}
}

// What a liar sends in the place of old records moves nobody.
func TestFalsePast(t *testing.T) {
	l := forgetful(t, false)
	for _, p := range l.peers[:3] {
		pa := &p.m.catchup.past
		if err := pa.show("nobody", 0); err != nil {
			t.Fatal(err)
		}
		q := *p.m.chain.Past()
		q.Links = slices.Clone(q.Links)
		q.Links[0] = append(slices.Clone(q.Links[0][:len(q.Links[0])-1]), 0)
		pa.packed = wire.PackPast(q, p.m.chain.Above(q.Floor)[:q.Height+1-q.Floor])
	}
	e := l.add("E")
	l.connect()
	if !l.run(5*time.Minute, func() bool { return e.m.member() }) || e.m.chain.Floor() == 0 {
		t.Errorf("the newcomer does not get by the liars\n%s", l.show())
	}
}

// The record at which two branches parted is forgotten on one side. The lone member that forked
// comes to the others by itself: they decided at that record, and have more work. It stays while
// its own branch has more, and a pin moves it then.
func TestBranchesThatPartedLongAgo(t *testing.T) {
	t.Parallel()
	for _, heavy := range []bool{false, true} {
		l := forgetful(t, false)
		d, abc := l.peers[3], l.peers[:3]
		if heavy {
			d.weight = 100
		}
		l.filters = []*labFilter{{from: "D", left: -1}, {to: "D", left: -1}}
		parted := d.m.chain.Height()
		l.until(t, l.peers[0].view().AppliedSlot+130, abc...)
		if !l.run(time.Minute, func() bool { return d.m.chain.Height() > parted+20 }) || d.m.chain.Start() > parted ||
			abc[0].m.chain.Start() <= parted {
			t.Fatalf("the one that was cut off does not go on alone, or forgot where\n%s", l.show())
		}
		l.filters = nil
		told := func(what string) bool {
			return slices.ContainsFunc(l.log, func(s string) bool { return strings.HasPrefix(s, "D "+what) })
		}
		moved := l.run(time.Minute, func() bool { return d.view().ChainSwitches > 0 })
		if moved == heavy || told("peer.refused") || told("run.switched") == heavy {
			t.Fatalf("heavy %v: it has moved: %v, and says %v, %v\n%s", heavy, moved, told("peer.refused"),
				told("run.switched"), l.show())
		}
		if heavy {
			d.crash()
			l.pins = map[string]slot.Root{"D": abc[0].m.chain.Lasting()}
			d.start()
		}
		l.until(t, abc[0].view().AppliedSlot+10, l.peers...)
		if d.view().ChainSwitches != 1 {
			t.Errorf("heavy %v: it has moved %d times", heavy, d.view().ChainSwitches)
		}
		d.crash()
		d.start()
		l.until(t, abc[0].view().AppliedSlot+10, l.peers...)
	}
}
