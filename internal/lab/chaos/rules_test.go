package chaos

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// TestAMinorityAtATime: less than half of the peers are down at once, with trust byzantine less
// than a third of those that have a vote, and a quorum of the members stays up.
func TestAMinorityAtATime(t *testing.T) {
	for _, c := range []struct {
		trust   string
		peers   int
		down    int // by kills
		members int // the first so many; 0: all
		beside  Kind
		next    Kind
		want    bool
	}{
		{"crash", 8, 0, 0, "", "kill", true},
		{"crash", 8, 2, 0, "", "kill", true},
		{"crash", 8, 3, 0, "", "kill", false},
		{"crash", 3, 0, 0, "", "stop", true},
		{"crash", 3, 1, 0, "", "stop", false},
		{"crash", 8, 3, 0, "", "late", true},
		{"crash", 8, 3, 0, "", "bootstrap", true},
		{"crash", 8, 0, 0, "", "all", true},
		{"crash", 8, 1, 0, "", "all", false},
		{"crash", 8, 1, 0, "", "partition", false},
		{"crash", 8, 0, 0, "all", "late", false},
		{"crash", 8, 0, 0, "partition", "kill", false},
		{"crash", 8, 1, 3, "", "kill", false},       // the other members have not come back yet
		{"crash", 5, 1, 0, "leader", "kill", false}, // one more will be down any moment
		{"byzantine", 3, 0, 0, "", "kill", true},
		{"byzantine", 4, 0, 0, "", "kill", true},
		{"byzantine", 4, 1, 0, "", "kill", false},
		{"byzantine", 7, 1, 0, "", "kill", true},
		{"byzantine", 7, 2, 0, "", "kill", false},
	} {
		r := paper(c.peers)
		r.cfg.Trust = c.trust
		if c.members > 0 {
			r.ledger.members = r.ledger.members[:c.members]
		}
		if c.beside == "leader" {
			r.active = append(r.active, newFault(Fault{Kind: "leader"}))
		} else if c.beside != "" {
			r.suffer(c.beside, "lasts", 1)
		}
		for n := range c.down {
			r.suffer("kill", "lasts", n+1)
		}
		if got := r.mayBegin(Fault{Kind: c.next}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	r := paper(7) // a member without a vote is no help while others are down
	r.cfg.Trust = p2pdiloco.TrustByzantine
	r.suffer("kill", "lasts", 2)
	r.nodes[0].status = p2pdiloco.Status{Height: 9, Agreement: &p2pdiloco.AgreementStatus{Electors: 6}}
	if r.mayBegin(Fault{Kind: "kill"}) {
		t.Error("a second kill with 6 electors")
	}
	r = paper(8)
	r.cfg.Trust = p2pdiloco.TrustByzantine
	if got := r.victims(newFault(Fault{Kind: "partition", Side: 4})); len(got) != 2 {
		t.Errorf("a partition with trust byzantine hurts %d of 8 peers", len(got))
	}
}

// TestTheGateOpens: up to the next fault, for what a fault waits for, and to the end once all are
// back. With trust byzantine a peer is listed again with a step, so the swarm does one while a peer
// is long on its way back, and as soon as it can ask for it.
func TestTheGateOpens(t *testing.T) {
	comesBack := func(ago time.Duration, slot uint64, listed bool) func(*runner) {
		return func(r *runner) {
			r.suffer("wipe", "back", 1).since = time.Now().Add(-ago)
			if r.nodes[0].status.Slot = slot; !listed {
				r.nodes[0].ID = "its next life"
			}
		}
	}
	under := func(kind Kind, word string) func(*runner) { return func(r *runner) { r.suffer(kind, word, 4) } }
	ends := func(then func(*runner)) func(*runner) {
		return func(r *runner) {
			if r.pending = nil; then != nil {
				then(r)
			}
		}
	}
	for _, c := range []struct {
		name  string
		trust string
		set   func(*runner)
		want  uint64
	}{
		{"nothing", "crash", func(*runner) {}, 5},
		{"a kill", "crash", under("kill", "lasts"), 5},
		{"somebody must go on", "crash", under("turns", "advance"), 6},
		{"a leader is chased", "crash", func(r *runner) { r.active = []*fault{newFault(Fault{Kind: "leader"})} }, 6},
		{"the last fault is not over", "crash", ends(under("kill", "lasts")), 58},
		{"the run ends meanwhile", "crash", ends(under("end", "finish")), 60},
		{"all are back", "crash", ends(nil), 60},
		{"asks to be listed", "byzantine", comesBack(3*time.Second, 5, false), 6},
		{"asks before the last slot", "byzantine", ends(func(r *runner) {
			comesBack(3*time.Second, 59, false)(r)
			r.ledger.slot = 59
		}), 60},
		{"asks, and stands in an old list", "byzantine", func(r *runner) {
			comesBack(3*time.Second, 5, true)(r)
			r.nodes[0].status.Phase = p2pdiloco.PhaseJoining
		}, 6},
		{"cannot ask yet", "byzantine", comesBack(3*time.Second, 4, false), 5},
		{"need not ask", "byzantine", comesBack(3*time.Second, 5, true), 5},
		{"has just come", "byzantine", comesBack(time.Second, 5, false), 5},
		{"is listed at once", "crash", comesBack(3*time.Second, 5, false), 5},
	} {
		r := paper(8)
		r.dir, r.cfg.Trust, r.ledger.slot, r.pending = t.TempDir(), c.trust, 5, []Fault{{Slot: 5, Kind: "kill"}}
		c.set(r)
		for range 2 {
			if err := r.openGate(); err != nil || r.gate.slot != c.want {
				t.Errorf("%s: gate at %d, %v, want %d", c.name, r.gate.slot, err, c.want)
			}
		}
	}
}

func TestWhoIsBackIsInTouch(t *testing.T) {
	self, reached, not := p2pdiloco.MemberStatus{Self: true}, p2pdiloco.MemberStatus{Path: &p2p.Path{}},
		p2pdiloco.MemberStatus{}
	for _, c := range []struct {
		phase   p2pdiloco.Phase
		slot    uint64
		members []p2pdiloco.MemberStatus
		want    bool
	}{
		{p2pdiloco.PhaseRunning, 4, []p2pdiloco.MemberStatus{self, reached, not}, true},
		{p2pdiloco.PhaseRunning, 4, []p2pdiloco.MemberStatus{self, not}, false},
		{p2pdiloco.PhaseRunning, 3, []p2pdiloco.MemberStatus{self, reached}, false},
		{p2pdiloco.PhaseJoining, 4, []p2pdiloco.MemberStatus{reached, reached}, false},
		{p2pdiloco.PhaseEnded, 4, []p2pdiloco.MemberStatus{self, not}, true},
		{"", 4, nil, false},
	} {
		p := &node{status: p2pdiloco.Status{Phase: c.phase, Slot: c.slot, Members: c.members}}
		if got := p.back(4); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestALeaderIsStruckAtItsMoment: whoever leads then is hurt, unless another fault hurts it.
func TestALeaderIsStruckAtItsMoment(t *testing.T) {
	for _, c := range []struct {
		name string
		pick uint64
		ago  time.Duration
		hurt int
		want []int
	}{
		{"at once", moments, 0, 1, []int{3}},
		{"too early", moments - 1, time.Second / 5, 1, []int{}},
		{"late in the slot", moments - 1, time.Second, 1, []int{3}},
		{"another fault's victim", 0, 0, 3, []int{}},
	} {
		r, f := paper(5), newFault(Fault{Kind: "leader", Pick: c.pick})
		f.words = []string{"lasts"} // nobody is killed
		f.armed = time.Now().Add(-c.ago)
		for _, p := range r.nodes {
			p.status.Peer, p.status.Leader = slot.PeerID(p.ID), "peer-3"
		}
		r.suffer("kill", "lasts", c.hurt)
		if err := r.step(f); err != nil || !slices.Equal(f.Victims, c.want) {
			t.Errorf("%s: hit %v, want %v, %v", c.name, f.Victims, c.want, err)
		}
	}
}

// TestALeaderThatIsMissed: where slots are slow the wait is longer, up to a bound. Where the run
// has no slot left nobody waits for long.
func TestALeaderThatIsMissed(t *testing.T) {
	for _, c := range []struct {
		name   string
		preset string
		slot   uint64 // of 60
		passed uint64
		ago    time.Duration
		missed bool
	}{
		{"soon", edge.PresetLAN, 9, fairSlots, time.Second, false},
		{"in all slots", edge.PresetLAN, 9, fairSlots, chaseFor, true},
		{"in many fast slots", edge.PresetLAN, 19, chaseSlots, time.Second, true},
		{"in slow slots", edge.PresetLAN, 9, fairSlots - 1, chaseFor, false},
		{"in slow slots, for long", edge.PresetLAN, 9, fairSlots - 1, chaseMost, true},
		{"a slot is left", edge.PresetLAN, 58, 0, chaseFor, false},
		{"no slot is left", edge.PresetLAN, 59, 0, lastChance, true},
		{"slow timers", edge.PresetWAN, 59, 0, lastChance, false},
	} {
		r, f := paper(5), newFault(Fault{Kind: "leader"})
		r.active, r.cfg.Preset, r.ledger.slot = []*fault{f}, c.preset, c.slot
		f.armed, f.BegunSlot = time.Now().Add(-c.ago), c.slot-c.passed
		if err := r.advance(); err != nil || f.Missed != c.missed || (len(r.active) == 0) != c.missed {
			t.Errorf("%s: missed %v, %v", c.name, f.Missed, err)
		}
	}
}

// TestNoProgress: a swarm that may train and has no record for a minute hangs. One that waits for
// its schedule does not, and with the timers of the internet all takes longer.
func TestNoProgress(t *testing.T) {
	for _, c := range []struct {
		name       string
		preset     string
		slot, gate uint64
		ago        time.Duration
		want       bool
	}{
		{"in time", edge.PresetLAN, 5, 7, stuckAfter - time.Second, false},
		{"for a minute", edge.PresetLAN, 5, 7, stuckAfter + time.Second, true},
		{"the gate is closed", edge.PresetLAN, 5, 5, time.Hour, false},
		{"some do not end after the last slot", edge.PresetLAN, 60, 60, time.Hour, true},
		{"slow timers", edge.PresetWAN, 5, 7, stuckAfter + time.Second, false},
	} {
		r := paper(4)
		r.cfg.Preset, r.ledger.slot, r.gate.slot = c.preset, c.slot, c.gate
		r.ledger.progress = time.Now().Add(-c.ago)
		if err := r.stuck(); errors.Is(err, errHang) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	g := newLedger() // what another peer has said before is no progress
	for height, want := range map[uint64]bool{7: false, 9: true} {
		g.height, g.progress = 8, time.Time{}
		if g.observe(eventlog.Line{Event: "record.certified", Height: height}); g.progress.IsZero() == want {
			t.Errorf("a record at height %d after 8: %v", height, g.progress)
		}
	}
}

func TestRecovery(t *testing.T) {
	r, began := paper(4), time.Now()
	for slot, after := range map[uint64]time.Duration{3: -time.Second, 4: 2 * time.Second, 5: 3 * time.Second} {
		r.ledger.commits[slot] = began.Add(after)
	}
	if got := r.recovery(Injected{BegunSlot: 3, began: began}); got != 2 {
		t.Errorf("got %v", got)
	}
	if got := r.recovery(Injected{BegunSlot: 5, began: began}); got != 0 {
		t.Errorf("no slot came after it, and it took %v", got)
	}
}

// TestFaultsComeAbout: what was missed is counted and named. Half of all faults must come about,
// and one of each kind that was drawn more than once.
func TestFaultsComeAbout(t *testing.T) {
	kill, came := Injected{Fault: Fault{Kind: "kill"}}, Injected{Fault: Fault{Kind: "leader"}}
	missed := Injected{Fault: Fault{Kind: "leader"}, Missed: true}
	for _, c := range []struct {
		faults []Injected
		ok     bool
		says   string
	}{
		{nil, true, "0 of 0"},
		{[]Injected{kill, kill, came, missed}, true, "3 of 4; missed: [leader]"},
		{[]Injected{came, missed, missed}, false, "2 of 3 faults were missed"},
		{[]Injected{kill, kill, kill, missed, missed}, false, "leader: all of 2 were missed"},
	} {
		if got := checkHappen(c.faults); got.OK != c.ok || !strings.Contains(got.Detail, c.says) {
			t.Errorf("%+v, want %q", got, c.says)
		}
	}
}
