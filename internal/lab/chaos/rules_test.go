package chaos

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// paper is a runner of n members without processes: what is done to them is only written down.
func paper(n int) *runner {
	r := &runner{
		cfg: Config{Peers: n, Slots: 60}, screen: swarm.NewScreen(io.Discard, 0),
		ledger: newLedger(),
	}
	for i := range n {
		id := fmt.Sprintf("peer-%d", i+1)
		r.nodes = append(r.nodes, &node{n: i + 1, Peer: &swarm.Peer{ID: id}})
		r.ledger.members = append(r.ledger.members, id)
	}
	return r
}

// suffer makes some peers victims of a fault under way.
func (r *runner) suffer(kind Kind, peers ...int) {
	f := &fault{Injected: Injected{Fault: Fault{Kind: kind}}, stage: on}
	for _, n := range peers {
		p := r.nodes[n-1]
		p.hurt, f.victims = f, append(f.victims, p)
	}
	r.active = append(r.active, f)
}

func TestAMinorityAtATime(t *testing.T) {
	for _, c := range []struct {
		peers, down int
		next        Kind
		want        bool
	}{
		{8, 0, Kill, true},
		{8, 2, Kill, true},
		{8, 3, Kill, false},
		{3, 0, Stop, true},
		{3, 1, Stop, false},
		{8, 3, Late, true},
		{8, 3, Bootstrap, true},
		{8, 0, All, true},
		{8, 1, All, false},
		{8, 1, Partition, false},
	} {
		r := paper(c.peers)
		for n := range c.down {
			r.suffer(Kill, n+1)
		}
		if got := r.mayBegin(Fault{Kind: c.next}); got != c.want {
			t.Errorf("%s with %d of %d peers down: %v", c.next, c.down, c.peers, got)
		}
	}
}

func TestAQuorumOfTheMembersStays(t *testing.T) {
	r := paper(8)
	r.ledger.members = r.ledger.members[:3] // the others have not come back yet
	r.suffer(Kill, 1)
	if r.mayBegin(Fault{Kind: Kill}) {
		t.Error("two of three members would be down")
	}
	r = paper(5)
	// armed: one more will be down any moment
	r.active = append(r.active, &fault{Injected: Injected{Fault: Fault{Kind: Leader}}})
	r.suffer(Kill, 1)
	if r.mayBegin(Fault{Kind: Kill}) {
		t.Error("three of five members would be down")
	}
}

// TestByzantineMembersDown: with trust byzantine fewer than a third are down at once, partitions
// included.
func TestByzantineMembersDown(t *testing.T) {
	for _, c := range []struct {
		peers, down int
		want        bool
	}{
		{3, 0, true},
		{4, 0, true},
		{4, 1, false},
		{6, 1, false},
		{7, 1, true},
		{7, 2, false},
	} {
		r := paper(c.peers)
		r.cfg.Trust = p2pdiloco.TrustByzantine
		for n := range c.down {
			r.suffer(Kill, n+1)
		}
		if got := r.mayBegin(Fault{Kind: Kill}); got != c.want {
			t.Errorf("a kill with %d of %d peers down: %v", c.down, c.peers, got)
		}
	}
	r := paper(8)
	r.cfg.Trust = p2pdiloco.TrustByzantine
	side := Fault{Kind: Partition, Side: 4}
	if got := r.victims(&fault{Injected: Injected{Fault: side}}); len(got) != 2 {
		t.Errorf("%d of 8 peers are cut off", len(got))
	}
	if line := (Config{Trust: p2pdiloco.TrustByzantine}).Replay(); !strings.Contains(line, " --trust byzantine") {
		t.Errorf("replay: %s", line)
	}
}

func TestNothingBesideAFaultThatGoesAlone(t *testing.T) {
	for _, kind := range []Kind{All, Partition} {
		r := paper(8)
		r.suffer(kind, 1)
		if r.mayBegin(Fault{Kind: Late}) || r.mayBegin(Fault{Kind: Kill}) {
			t.Errorf("something begins beside %s", kind)
		}
	}
}

// TestTheGateOpensForAJoin: with trust byzantine a peer is listed again with a step, so the swarm
// does one while a peer is long on its way back, and as soon as it can ask for it.
func TestTheGateOpensForAJoin(t *testing.T) {
	for _, c := range []struct {
		trust  string
		ago    time.Duration
		slot   uint64 // that the peer has applied
		listed bool
		want   uint64
	}{
		{p2pdiloco.TrustByzantine, 3 * time.Second, 5, false, 6},
		{p2pdiloco.TrustByzantine, 3 * time.Second, 4, false, 5}, // it cannot ask yet
		{p2pdiloco.TrustByzantine, 3 * time.Second, 5, true, 5},  // it need not ask
		{p2pdiloco.TrustByzantine, time.Second, 5, false, 5},
		{p2pdiloco.TrustCrash, 3 * time.Second, 5, false, 5},
	} {
		r := paper(8)
		r.dir, r.cfg.Trust, r.ledger.slot = t.TempDir(), c.trust, 5
		r.pending = []Fault{{Slot: 5, Kind: Kill}}
		r.suffer(Wipe, 1)
		r.active[0].stage, r.active[0].lifted = returning, time.Now().Add(-c.ago)
		if r.nodes[0].status.Slot = c.slot; !c.listed {
			r.nodes[0].ID = "its next life"
		}
		if err := r.openGate(); err != nil || r.gate.slot != c.want {
			t.Errorf("%+v: gate at %d, %v", c, r.gate.slot, err)
		}
		if r.ledger.slot = c.want; c.want > 5 {
			r.nodes[0].status.Slot = c.want // and is not listed yet
		}
		if err := r.openGate(); err != nil || r.gate.slot != c.want {
			t.Errorf("%+v: gate at %d at once after a step, %v", c, r.gate.slot, err)
		}
	}
}

// TestElectorsDown: a member without a vote is no help while others are down.
func TestElectorsDown(t *testing.T) {
	for electors, want := range map[int]bool{7: true, 6: false} {
		r := paper(7)
		r.cfg.Trust = p2pdiloco.TrustByzantine
		r.nodes[0].status = p2pdiloco.Status{Height: 9, Agreement: &p2pdiloco.AgreementStatus{Electors: electors}}
		r.suffer(Kill, 2)
		if got := r.mayBegin(Fault{Kind: Kill}); got != want {
			t.Errorf("a second kill with %d electors: %v", electors, got)
		}
	}
}

// A load that begins at the slot of the next fault kills its victim after one more slot: the gate
// opens for that, though the next fault waits until all are back.
func TestTheGateOpensForALoad(t *testing.T) {
	for begun, want := range map[uint64]uint64{10: 11, 9: 10} {
		r := paper(5)
		r.dir, r.ledger.slot, r.gate.slot = t.TempDir(), 10, 10
		r.pending = []Fault{{Slot: 10, Kind: End}}
		r.suffer(Load, 4)
		r.active[0].BegunSlot = begun
		if err := r.openGate(); err != nil || r.gate.slot != want {
			t.Errorf("begun at slot %d: gate at %d, %v, want %d", begun, r.gate.slot, err, want)
		}
	}
}

func TestTheGateFollowsTheSchedule(t *testing.T) {
	r := paper(8)
	r.dir = t.TempDir()
	r.pending = []Fault{{Slot: 5, Kind: Kill}}
	for _, c := range []struct {
		change func()
		want   uint64
	}{
		{func() {}, 5},
		{func() { r.pending = nil; r.suffer(Kill, 1) }, 58},
		{func() { r.active = nil }, 60},
		{func() { r.suffer(Kill, 2) }, 60}, // it never closes again
	} {
		c.change()
		if err := r.openGate(); err != nil || r.gate.slot != c.want {
			t.Errorf("gate at %d, %v, want %d", r.gate.slot, err, c.want)
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
		{p2pdiloco.PhaseRunning, 4, []p2pdiloco.MemberStatus{self, reached, reached, not, not}, true},
		{p2pdiloco.PhaseRunning, 4, []p2pdiloco.MemberStatus{self, reached, not, not}, false},
		{p2pdiloco.PhaseRunning, 4, []p2pdiloco.MemberStatus{self, not, not, not, not}, false},
		{p2pdiloco.PhaseRunning, 3, []p2pdiloco.MemberStatus{self, reached}, false},
		{p2pdiloco.PhaseJoining, 4, []p2pdiloco.MemberStatus{reached, reached}, false},
		{p2pdiloco.PhaseEnded, 4, []p2pdiloco.MemberStatus{self, not, not}, true},
		{"", 4, nil, false},
	} {
		p := &node{status: p2pdiloco.Status{Phase: c.phase, Slot: c.slot, Members: c.members}}
		if got := p.back(4); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestALeaderIsCaughtInItsPhase passes events to a chase, and checks which peer it strikes.
func TestALeaderIsCaughtInItsPhase(t *testing.T) {
	for _, c := range []struct {
		phase Phase
		by    int
		line  eventlog.Line
		want  int // 0: nobody
	}{
		{PhasePlan, 2, eventlog.Line{Event: "slot.planned", Slot: 4, Leader: "peer-3"}, 3},
		// the slot before the fault's
		{PhasePlan, 2, eventlog.Line{Event: "slot.planned", Slot: 3, Leader: "peer-3"}, 0},
		{PhaseDraft, 2, eventlog.Line{Event: "record.drafted", Slot: 4, Kind: "step"}, 2},
		{PhaseDraft, 2, eventlog.Line{Event: "record.drafted", Slot: 4, Kind: "members"}, 0},
		{PhaseDraft, 2, eventlog.Line{Event: "slot.planned", Slot: 4, Leader: "peer-2"}, 0},
		{PhaseVote, 4, eventlog.Line{Event: "record.proposed", Slot: 4, Kind: "step"}, 4},
		{PhaseCommit, 4, eventlog.Line{Event: "record.certified", Slot: 4, Kind: "step", Record: "theirs"}, 0},
		{PhaseCommit, 4, eventlog.Line{Event: "record.certified", Slot: 4, Kind: "step", Record: "ours"}, 5},
	} {
		r := paper(8)
		f := &fault{Injected: Injected{Fault: Fault{Kind: Leader, Phase: c.phase}, BegunSlot: 3}}
		if c.phase == PhaseCommit {
			f.caught(r.nodes[4], eventlog.Line{Event: "record.proposed", Slot: 4, Kind: "step", Record: "ours"})
		}
		got := 0
		for _, p := range r.nodes {
			if p.ID == f.caught(r.nodes[c.by-1], c.line) {
				got = p.n
			}
		}
		if got != c.want {
			t.Errorf("%s, %+v: peer %d, want %d", c.phase, c.line, got, c.want)
		}
	}
}

func TestRecovery(t *testing.T) {
	r := paper(4)
	began := time.Now()
	for slot, after := range map[uint64]time.Duration{3: -time.Second, 4: 2 * time.Second, 5: 3 * time.Second} {
		r.ledger.commits[slot] = began.Add(after)
	}
	if got := r.recovery(Injected{BegunSlot: 3, began: began}); got == nil || *got != 2 {
		t.Errorf("got %v", got)
	}
	if got := r.recovery(Injected{BegunSlot: 5, began: began}); got != nil {
		t.Errorf("no slot came after it, and it took %v", *got)
	}
	// A leader dies once slot 4 has its certificate: that slot's own commit is no recovery, though
	// its event came after the kill.
	f := &fault{Injected: Injected{Fault: Fault{Kind: Leader, Phase: PhaseCommit}, BegunSlot: 3, began: began}}
	f.certified(4)
	if got := r.recovery(f.Injected); got == nil || *got != 3 {
		t.Errorf("leader killed after the certificate of slot 4: got %v", got)
	}
	two, four := 2.0, 4.0
	all := recoveries([]Injected{
		{Fault: Fault{Kind: Kill}, Recovery: &two, Return: &four},
		{Fault: Fault{Kind: Kill}, Recovery: &four, Return: &four},
		{Fault: Fault{Kind: Leader, Phase: PhaseVote}, Missed: true},
	})
	if k := all["kill"]; k.Count != 2 || k.Max != 4 || k.ReturnMedian != 4 || all["leader:vote"].Count != 0 {
		t.Errorf("got %+v", k)
	}
}

// A run with the kind End ends with it, also if it is the only kind.
func TestEndComesLast(t *testing.T) {
	alone := Schedule(3, 5, 12, []Kind{End})
	if len(alone) != 1 || alone[0].Kind != End || alone[0].Slot != 12-quietLast {
		t.Errorf("alone: %+v", alone)
	}
	all := Schedule(3, 5, 12, Kinds(true))
	if last := all[len(all)-1]; last.Kind != End {
		t.Errorf("all kinds: %+v comes last", last)
	}
}

// Load kills nobody: a member that is no member any more is reported, once. The victim that was
// killed is not, and the others may take a while to miss it, but not for ever.
func TestLoadIsNoDeath(t *testing.T) {
	a, b := &node{Peer: &swarm.Peer{ID: "a"}, n: 1}, &node{Peer: &swarm.Peer{ID: "b"}, n: 2}
	f := &fault{members: []string{"a", "b"}, victims: []*node{b}, stage: on, killed: time.Now()}
	b.hurt, b.gone = f, true
	r := &runner{nodes: []*node{a, b}, ledger: ledger{members: []string{"a"}}}
	r.underLoad(f)
	if len(r.slow) > 0 {
		t.Errorf("the victim: %v", r.slow)
	}
	r.ledger.members = []string{"b"}
	r.underLoad(f)
	r.underLoad(f)
	if len(r.slow) != 1 {
		t.Errorf("a member that lives was lost, and %d times that is said", len(r.slow))
	}
	r.slow = nil
	if r.missed(f) {
		t.Error("missed at once, by nobody")
	}
	f.killed = f.killed.Add(-longestFault)
	if !r.missed(f) || len(r.slow) != 1 {
		t.Errorf("never missed: %v", r.slow)
	}
}
