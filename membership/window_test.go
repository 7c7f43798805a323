package membership

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
)

// soonLab is a run of some members that has done some slots. From then on a round of each takes so
// many Straggler, but for those that offer as soon as a slot begins.
func soonLab(t *testing.T, byzantine bool, names string, rounds float64, atOnce string) *lab {
	t.Helper()
	rules, round := labRules(), time.Duration(rounds*float64(labTiming.Straggler))
	rules.Byzantine, rules.StartPeers, rules.MaxWeightRatio, rules.NewcomerShare = byzantine, len(names), 8, 500
	l := connectedLab(t, rules, labTiming, names)
	l.within(t, 2*time.Minute, "slot 6 of all", func() bool {
		return l.peers[0].m.View().AppliedSlot >= 6 && len(l.peers[0].m.chain.Electorate()) == len(names)
	})
	for _, p := range l.peers {
		p.slowness = round
	}
	for _, n := range atOnce {
		if p := l.peer(string(n)); p != nil {
			p.slowness = 0
		} else {
			l.add(string(n))
		}
	}
	l.connect()
	return l
}

// counted runs the lab to a slot, and says how many slots came and how often each contributed.
func (l *lab) counted(until uint64) (slots int, times map[string]int) {
	times = map[string]int{}
	from := l.peers[0].m.chain.Height()
	l.run(time.Hour, func() bool { return l.peers[0].m.chain.Tip().Slot >= until })
	c := l.peers[0].m.chain
	for h := from + 1; h <= c.Height(); h++ {
		if r := c.At(h); r.Kind == slot.Step {
			slots++
			for _, o := range r.Contributions {
				times[labName(o.Peer)]++
			}
		}
	}
	return slots, times
}

// TestWhoOffersAtOnceDecidesNothingAlone: rounds take longer than stragglers are waited for, and
// some have no trainer, so that they offer as soon as a slot begins. The others contribute as if
// these were not there.
func TestWhoOffersAtOnceDecidesNothingAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		byzantine bool
		names     string
		rounds    float64 // in Straggler
		atOnce    string
		idle      string
		honest    string
	}{
		"nobody":                            {true, "ABCD", 5, "", "", "ABCD"},
		"a stranger":                        {true, "ABCD", 5, "Z", "", "ABCD"},
		"two strangers":                     {true, "ABCD", 5, "YZ", "", "ABCD"},
		"five strangers, shorter rounds":    {true, "ABCD", 1.5, "UVXYZ", "", "ABCD"},
		"an elector":                        {true, "ABCD", 5, "D", "", "ABC"},
		"an elector and two strangers":      {true, "ABCD", 5, "DYZ", "", "ABC"},
		"two electors of seven":             {true, "ABCDEFG", 5, "FG", "", "ABCDE"},
		"a stranger beside two that train":  {true, "ABCD", 5, "Z", "CD", "AB"},
		"a stranger beside one that trains": {true, "ABCD", 5, "Z", "BCD", "A"},
		"a stranger beside three":           {true, "ABC", 5, "Z", "", "ABC"},
		"a member, trust crash":             {false, "ABCD", 5, "D", "", "ABC"},
	} {
		l := soonLab(t, c.byzantine, c.names, c.rounds, c.atOnce)
		l.idle(c.idle)
		slots, times := l.counted(18)
		if slots < 10 {
			t.Errorf("%s: %d slots in an hour", name, slots)
		}
		for _, n := range c.honest {
			if times[string(n)] < 9*slots/10 {
				t.Errorf("%s: %c contributed to %d of %d slots", name, n, times[string(n)], slots)
			}
		}
	}
}

// TestLongRoundsAreWaitedForInTheEnd: an elector offers at once, and rounds take longer than the
// others are waited for where it alone has offered. It has few slots to itself.
func TestLongRoundsAreWaitedForInTheEnd(t *testing.T) {
	t.Parallel()
	l := soonLab(t, true, "ABCD", 2.5*loneWait, "D")
	slots, times := l.counted(22)
	for _, n := range "ABC" {
		if slots < 15 || times[string(n)] < slots-4 {
			t.Errorf("%c contributed to %d of %d slots", n, times[string(n)], slots)
		}
	}
}

// TestStrangersThatOfferAtOnceTakeNoCredit: what they offer early does not make the credit of
// honest electors fall.
func TestStrangersThatOfferAtOnceTakeNoCredit(t *testing.T) {
	t.Parallel()
	l := soonLab(t, true, "ABCD", 1.5, "UVXYZ")
	l.counted(45)
	c := l.peers[0].m.chain
	for _, m := range c.Members() {
		if strings.Contains("ABCD", labName(m.Peer)) && (m.Credit < 250 || !m.Elects()) {
			t.Errorf("%s has credit %d", labName(m.Peer), m.Credit)
		}
	}
	if s := c.Tip().Slot; s < 45 {
		t.Errorf("slot %d is the last", s)
	}
}

// TestStragglersAreStillLeftOut: slots close without electors that are slow, or hang, or are dead,
// as soon as they did: a fourth of the others holds up nobody for longer than one straggler may.
func TestStragglersAreStillLeftOut(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		names string
		fault func(l *lab)
		most  time.Duration // that a slot takes
	}{
		"one of four hangs":          {"ABCD", func(l *lab) { l.peer("D").slowness = time.Hour }, labTiming.Straggler},
		"one of four is dead":        {"ABCD", func(l *lab) { l.peer("D").crash() }, labTiming.Lost},
		"one of four has no trainer": {"ABCD", func(l *lab) { l.idle("D") }, labTiming.MinGrace},
		"three of four have none":    {"ABCD", func(l *lab) { l.idle("BCD") }, labTiming.MinGrace},
		"two of four hang": {"ABCD", func(l *lab) {
			l.peer("B").slowness, l.peer("C").slowness = time.Hour, time.Hour
		}, fewWait * labTiming.Straggler},
		"one of two that train hangs": {"ABCD", func(l *lab) {
			l.idle("CD")
			l.peer("B").slowness = time.Hour
		}, fewWait * labTiming.Straggler},
		"the elector that trains hangs, and two with credit do not": {"ABCDEF", func(l *lab) {
			electors := l.peers[0].m.chain.Electorate()
			if len(electors) != 4 {
				t.Fatalf("%d electors", len(electors))
			}
			for _, e := range electors[1:] {
				l.idle(labName(e.Peer))
			}
			l.peer(labName(electors[0].Peer)).slowness = time.Hour
		}, loneWait * labTiming.Straggler},
	} {
		l := labUntil(t, c.names, func(ch *chain.Chain) bool { return ch.Tip().Slot >= 5 })
		c.fault(l)
		began, from := l.now, l.peers[0].m.chain.Tip().Slot
		const slots = 10
		l.run(time.Hour, func() bool { return l.peers[0].m.chain.Tip().Slot >= from+slots })
		if took := (l.now - began) / slots; took > c.most+c.most/4+500*time.Millisecond {
			t.Errorf("%s: a slot took %v", name, took)
		}
	}
}

func (l *lab) idle(names string) {
	for _, n := range names {
		p := l.peer(string(n))
		train(false, p)
	}
}

// TestTooManyThatHangStopNothing: three of four electors hang though they say that they train. That
// is more than may be faulty. The slot waits long for them, and is decided in the end.
func TestTooManyThatHangStopNothing(t *testing.T) {
	t.Parallel()
	for _, byzantine := range []bool{true, false} {
		l := soonLab(t, byzantine, "ABCD", 1000, "A")
		from := l.peers[0].m.chain.Tip().Slot
		l.within(t, 4*loneWait*labTiming.Straggler, fmt.Sprintf("byzantine %v: a slot", byzantine), func() bool {
			return l.peers[0].m.chain.Tip().Slot > from+1
		})
	}
}

// TestNewcomersSayNotHowLongOthersTrain: where contributors train on beside a reduction, newcomers
// that claim the longest steps do not have a slot wait.
func TestNewcomersSayNotHowLongOthersTrain(t *testing.T) {
	l := soonLab(t, true, "ABCD", 2, "UVXYZ")
	l.awaits(t, "nine members", func() bool { return len(l.peers[0].m.chain.Members()) == 9 })
	m := l.peer("A").m
	m.cfg.Timing.Beside = 50
	var offers []slot.Offer
	for _, e := range m.chain.Members() {
		m.presence.known[ofMember(e)].offerAt = m.now
		o := slot.Offer{Peer: e.Peer, Slot: 99, Base: 98, Steps: 10, StepTime: 1e5}
		if isNewcomer(m, e.Peer) {
			o.Steps, o.StepTime = math.MaxUint32, math.MaxUint32
		}
		offers = append(offers, o)
	}
	if got := m.history.graceEnds(offers, 10) - m.now; got > labTiming.Straggler {
		t.Errorf("the window is open for %v", got)
	}
}
