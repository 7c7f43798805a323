package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// Injected is a fault as it happened.
type Injected struct {
	Fault
	// newest slot committed when it began; of leader in phase commit: the slot with the certificate
	BegunSlot uint64 `json:"begun_slot"`
	Victims   []int  `json:"victims"`
	PhaseHit  Phase  `json:"phase_hit,omitempty"` // of kind leader: the phase in which its log ends
	// from its beginning until the next slot committed
	Recovery *float64 `json:"recovery_seconds"`
	// from its end until all victims took part again
	Return *float64 `json:"return_seconds"`
	// no leader could be caught, or the victim did not come to its place
	Missed bool `json:"missed,omitempty"`
	// it began while a slot was being reduced
	InReduction bool `json:"in_reduction,omitempty"`

	began  time.Time
	lifted time.Time // when it ended
	over   time.Time // when all victims took part again
	// of load: how long after it was killed the victim was missed
	missedIn time.Duration
}

// stage is the progress of a fault.
type stage int

const (
	armed     stage = iota // waits for its phase
	on                     // hurts its victims
	returning              // is over; its victims are on their way back
	over
)

// fault is a fault under way.
type fault struct {
	Injected
	stage      stage
	armedAt    time.Time
	liftedSlot uint64
	victims    []*node
	proposer   *node     // of leader in phase commit
	proposal   string    // its record's hash
	flips      int       // of flap
	busy       loops     // of load
	members    []string  // when it began
	killed     time.Time // of load: its victim
	again      bool      // of end: all have been started once more
	turned     time.Time // of turns: when those that died first came back
	others     []*node   // of turns: those that went on
	filled     time.Time // of disk-full: when the disk had no room left
	struck     time.Time // of failpoint: when the victim had come to its place
	from       int       // of failpoint: the victim's events before it had its order
	forked     bool      // of apart, partition: a side goes on as a branch
	mounted    bool      // of disk-full: the victim's data directory is a disk of its own
}

// Bounds on a fault's length in case the swarm makes no progress.
const (
	longestFault = 10 * time.Second
	longestPair  = 60 * time.Second
	chaseFor     = 15 * time.Second
	chaseMost    = 60 * time.Second
)

// advance takes every fault one step further, and begins those that are due.
func (r *runner) advance(ctx context.Context) error {
	for _, f := range r.active {
		if err := r.step(ctx, f); err != nil {
			return err
		}
	}
	r.active = slices.DeleteFunc(r.active, func(f *fault) bool {
		if f.stage != over {
			return false
		}
		f.over = time.Now()
		r.done = append(r.done, f.Injected)
		return true
	})
	for len(r.pending) > 0 && r.isTime(r.pending[0]) && r.mayBegin(r.pending[0]) {
		f := &fault{Injected: Injected{Fault: r.pending[0], BegunSlot: r.ledger.slot}, armedAt: time.Now()}
		r.pending = r.pending[1:]
		r.active = append(r.active, f)
		if f.Kind == Leader {
			continue // chase begins it
		}
		if err := r.begin(f, r.victims(f)...); err != nil {
			return err
		}
	}
	return nil
}

// mayBegin says whether a quorum remains during a fault, and whether no other fault is under way
// for kinds that need that.
func (r *runner) mayBegin(next Fault) bool {
	for _, f := range r.active {
		if f.Kind.alone() || next.Kind == f.Kind && (next.Kind == Bootstrap || next.Kind == Leader) {
			return false
		}
	}
	switch {
	case next.Kind.alone():
		return len(r.active) == 0
	case next.Kind == Bootstrap:
		return true
	case next.Kind.newcomer():
		return len(r.nodes) < maxPeers
	}
	hurt, up := 1, -1 // with its victim
	for _, p := range r.nodes {
		if p.hurt != nil && !p.hurt.Kind.newcomer() {
			hurt++
		}
	}
	if r.chasing() != nil {
		hurt, up = hurt+1, up-1
	}
	up += len(r.sound())
	return hurt <= r.mayFail(r.cfg.Peers) && up > 0 && len(r.ledger.members)-up <= r.mayFail(r.electors())
}

// electors is how many members have a vote, by the newest status: with trust byzantine a peer that
// lost its data has none for some slots. The peer that is hurt may be one of them.
func (r *runner) electors() int {
	n, height := len(r.ledger.members), uint64(0)
	for _, p := range r.nodes {
		if a := p.status.Agreement; a != nil && p.status.Height > height {
			n, height = min(len(r.ledger.members), a.Electors), p.status.Height
		}
	}
	return n
}

// mayFail is how many of n electors may be down at once: less than half of them, and with trust
// byzantine less than a third.
func (r *runner) mayFail(n int) int {
	if r.cfg.Trust == p2pdiloco.TrustByzantine && n >= 4 {
		return (n - 1) / 3
	}
	return (n - 1) / 2
}

// sound lists the members that no fault hurts.
func (r *runner) sound() (some []*node) {
	for _, p := range r.nodes {
		if p.running() && p.hurt == nil && slices.Contains(r.ledger.members, p.ID) {
			some = append(some, p)
		}
	}
	return some
}

// victims draws the peers that a fault hurts.
func (r *runner) victims(f *fault) []*node {
	sound := r.sound()
	switch f.Kind {
	case All:
		return slices.Clone(r.nodes)
	case Bootstrap:
		return nil
	case Turns:
		return slices.Clone(sound[:len(sound)/2+1])
	case Apart:
		return r.juniors()
	case Late, Clock:
		return []*node{r.addNode()}
	case Pair, FlapPair:
		i := int(f.Pick % uint64(len(sound)))
		return []*node{sound[i], sound[(i+1)%len(sound)]}
	case WipeTwo:
		most := max(1, min(2, r.mayFail(min(len(sound), r.electors()))))
		return neighbours(sound, f.Pick, most)
	case Kill, Leader, Restart, Wipe, Stop, Cut, Flap, Slow, Loss, Load, End, DiskFull, OneWay, Failpoint:
	case Partition: // the smaller side: a run of neighbours in a ring
		most := len(sound) / 2
		if r.cfg.Trust == p2pdiloco.TrustByzantine {
			most = max(1, r.mayFail(min(len(sound), r.electors())))
		}
		return neighbours(sound, f.Pick, min(f.Side, most))
	}
	return neighbours(sound, f.Pick, 1)
}

// neighbours are n peers that follow each other in a ring, from one that pick draws.
func neighbours(ring []*node, pick uint64, n int) []*node {
	some := make([]*node, n)
	for i := range some {
		some[i] = ring[(int(pick%uint64(len(ring)))+i)%len(ring)]
	}
	return some
}

// begin starts to hurt.
func (r *runner) begin(f *fault, victims ...*node) error {
	f.stage, f.began, f.BegunSlot, f.victims = on, time.Now(), r.ledger.slot, victims
	f.InReduction = r.ledger.reducing()
	f.Victims = []int{}
	for _, p := range victims {
		p.hurt = f
		f.Victims = append(f.Victims, p.n)
	}
	f.members = slices.Clone(r.ledger.members)
	r.screen.Note(fmt.Sprintf("slot %d: %s", r.ledger.slot, f))
	return r.inject(f)
}

func (f *fault) String() string {
	s := string(f.Kind)
	if at := string(f.Phase) + string(f.Place); at != "" {
		s += " (" + at + ")"
	}
	if len(f.Victims) > 0 {
		s += " of peer " + strings.Trim(strings.ReplaceAll(fmt.Sprint(f.Victims), " ", ", "), "[]")
	}
	return s
}

// step takes a fault one step further.
func (r *runner) step(ctx context.Context, f *fault) error {
	switch f.stage {
	case armed:
		r.chaseIdle(f)
		if f.stage == armed && !r.mayStillCome(f) {
			f.stage, f.Victims, f.Missed = over, []int{}, true
		}
	case on:
		if err := r.goesOn(f); err != nil {
			return err
		}
		if !r.due(f) {
			return nil
		}
		f.stage, f.lifted, f.liftedSlot = returning, time.Now(), r.ledger.slot
		return r.lift(ctx, f)
	case returning:
		return r.returned(f)
	case over:
	}
	return nil
}

// goesOn does what a fault does while it hurts its victims.
func (r *runner) goesOn(f *fault) error {
	switch f.Kind {
	case Load:
		r.underLoad(f)
	case DiskFull:
		return r.fillDisk(f)
	case Flap, FlapPair:
		return r.flap(f)
	case Turns:
		return r.takeTurns(f)
	case Failpoint:
		return r.struck(f)
	default:
	}
	return nil
}

// due says whether a fault has lasted long enough.
func (r *runner) due(f *fault) bool {
	since := time.Since(f.began)
	if f.Kind == Restart && !f.victims[0].gone {
		return false
	}
	switch f.Kind {
	case End:
		return r.othersEnded(f)
	case Apart:
		return r.oneSideEnded(f)
	case Load:
		return f.victims[0].gone && r.missed(f)
	case Turns:
		return r.turned(f)
	case DiskFull:
		return r.endedFull(f)
	case Failpoint:
		if !f.napped() {
			return f.Missed
		}
	case Partition:
		return since.Seconds() >= f.Seconds && r.branched(f)
	default:
	}
	longest := longestFault
	if r.cfg.pairAlone() { // its slots are what counts
		longest = longestPair
	}
	enough := r.ledger.slot >= f.BegunSlot+f.Slots || since >= r.cfg.stretch(longest)
	return enough && since.Seconds() >= f.Seconds
}

// takesPart says whether a peer is a member again. After a partition there may have been two
// chains, and the logs do not say which one remains: then all peers must have all others in their
// own lists.
func (r *runner) takesPart(f *fault, p *node) bool {
	if !f.splits() {
		return slices.Contains(r.ledger.members, p.ID)
	}
	for _, q := range r.nodes {
		members := q.members()
		if !q.back(f.liftedSlot) || slices.ContainsFunc(r.nodes,
			func(o *node) bool { return !slices.Contains(members, o.ID) }) {
			return false
		}
		r.ledger.height, r.ledger.members = q.status.Height, members
	}
	return true
}

// splits says whether a fault may leave two chains.
func (f *fault) splits() bool { return f.Kind == Partition || f.Kind == Turns }

// awaited are the peers that are members again at the end of a fault.
func (r *runner) awaited(f *fault) []*node {
	if f.splits() {
		return r.nodes
	}
	return f.victims
}

// returned ends a fault whose victims all take part again.
func (r *runner) returned(f *fault) error {
	if f.Kind.last() {
		return r.endedAgain(f)
	}
	for _, p := range f.victims {
		if p.back(f.liftedSlot) && r.takesPart(f, p) {
			continue
		}
		if most := r.cfg.stretch(returnWithin); time.Since(f.lifted) > most {
			return fmt.Errorf("%w: peer %d does not take part %v after the end of: %s", errHang, p.n, most, f)
		}
		return nil
	}
	if f.Kind == Clock {
		r.checkClock(f, doctorsClock(f.victims[0].Peer))
	}
	for _, p := range f.victims {
		p.hurt = nil
	}
	took := time.Since(f.lifted).Seconds()
	f.stage, f.Return = over, &took
	if len(f.victims) > 0 {
		r.screen.Note(fmt.Sprintf("slot %d: back after %.1f s: %s", r.ledger.slot, took, f))
	}
	return nil
}
