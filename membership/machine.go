package membership

import (
	"errors"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Why Step refuses a message. Both are ordinary: peers lag behind each other.
var (
	ErrStale  = errors.New("about what is decided or given up")
	ErrSender = errors.New("not for this sender to say")
)

const never = time.Duration(-1 << 62) // long before any time the machine is told

// Config says who a machine is and what it goes by.
type Config struct {
	Self        slot.PeerID
	Incarnation slot.Incarnation
	Rules       Rules
	Timing      Timing
	Plan        Planner
	Verify      slot.Verifier // of certificates; the messages' own signatures are checked before Step
	NeverFounds bool          // the run is known to exist: this peer waits for the others however long it takes
	PauseOnLoss bool          // a lost quorum is waited for until ReportRecover; else this peer forks after Timing.ForkAfter
	Open        bool          // anybody may come: newcomers are listed at the pace at which members contribute
	Follow      []slot.PeerID // whose orders this peer makes its own
	Pin         slot.Root     // hash of a record: a chain without it is neither joined nor moved to. Zero: none
}

// Machine is one peer's side of the slot ledger, as a pure function of its inputs: Step, Report and Tick put in, Ready takes out.
// It reads no clock, draws no random numbers and does no I/O; time is the caller's argument. It is not safe for concurrent use.
//
// Its parts, each in files of its name: chain (what is certified), decree (the height being decided: acceptor, ballot, leader,
// contributor), presence (who is heard), access and order (who may be here), state (what model state is held), catchup, joining, founding, fork, rival, ending.
type Machine struct {
	cfg       Config
	now       time.Duration
	out       Ready
	chain     *chain
	open      *decree
	words     map[place]word // promises and votes at places other than the open one (HOLES H7)
	presence  presence
	state     modelState
	founding  founding
	rival     *rival
	doubted   []slot.PeerID // whose claims of a better branch came to nothing, the newest last
	doubtedAt time.Duration // when the first of them did
	judged    []slot.Root   // tips of branches that were gathered and are not better
	refused   []slot.Root   // better branches that were said to be out of reach
	fork      forking
	barren    barren
	evictions []eviction
	orders    orders
	clones    []slot.PeerID // whose identities were found to be used twice
	listed    bool          // this peer was told to be a member
	wasMember bool          // it was since it started
	toldOut   bool          // it was told to be removed
	moves     uint64        // how often records were given up for another branch
	need      need
	early     []Message // for the height after the open one; bounded by maxEarly

	boot        uint64
	offerSeq    uint64
	mine        *slot.Offer // this peer's standing offer: announced, neither recorded nor too late
	mineAt      time.Duration
	waiting     *ReportOffer // came before this peer was a member
	contributes bool
	steps       uint32
	spreads     [recentSlots]time.Duration // of recent slots' finishing times
	reductions  [recentSlots]time.Duration // from recent slots' plans to their records; 0: not known
	usual       time.Duration              // that a reduction takes, likewise; 0: not known
	ringsFrom   uint64                     // the slot from which plans of this peer's may have rings
	slotAt      time.Duration              // when the open slot began; never while that is not known
	pacing      Pace                       // of the chain with the tip pacedAt
	pacedAt     slot.Root
	speeds      ReportLinks          // the newest
	apart       map[slot.PeerID]bool // who could not be reached in a reduction; a connection ends it
	aliveAt     time.Duration        // when ALIVE was last announced
	hurry       bool                 // it has news of connections
	askedAt     time.Duration        // when JOIN or LEAVE was
	leaving     bool
	left        bool
	paused      bool
	ending      ending
}

// NewMachine restores what was saved. It verifies nothing again: the store vouches for its bytes. If the node holds a model
// state it reports it with ReportApplied before the first Tick.
func NewMachine(cfg Config, saved Saved) *Machine {
	m := &Machine{
		cfg: cfg, chain: newChain(cfg.Rules, cfg.Pin), words: map[place]word{}, boot: saved.Boot, offerSeq: saved.OfferSeq,
		mineAt: never, aliveAt: never, askedAt: never, slotAt: never,
	}
	m.presence = newPresence(who{cfg.Self, cfg.Incarnation})
	m.need.at = never
	m.orders = newOrders()
	m.state = modelState{fromDisk: true, retryAt: never}
	for _, c := range saved.Chain {
		m.chain.push(c)
	}
	m.restoreWords(saved)
	m.founding = newFounding(saved.Fork)
	m.meetMembers(nil)
	m.openDecree()
	m.listed = m.elector()
	m.wasMember = m.listed
	return m
}

// Step takes a peer's message. An error says that the message was refused: then it changed nothing but that its sender is alive.
func (m *Machine) Step(now time.Duration, msg Message) error {
	m.now = max(m.now, now)
	m.heard(msg)
	if err := m.receive(msg); err != nil {
		return err
	}
	m.settle()
	return nil
}

// Report takes what the worker or the node has to say.
func (m *Machine) Report(now time.Duration, r Report) {
	m.now = max(m.now, now)
	m.take(r)
	m.settle()
}

// Tick lets time pass. Call it at least every Timing.Beat/2, and every Timing.Gone/2 if that is set.
func (m *Machine) Tick(now time.Duration) {
	m.now = max(m.now, now)
	m.watchReach()
	m.announce()
	m.noticeLosses()
	m.watchQuorum()
	m.considerFork()
	m.leaveBarren()
	m.repeatOffer()
	m.repeatEvidence()
	m.recountOrders()
	m.repeatOrders()
	m.tellAccess()
	m.tellStanding()
	m.catchUp()
	m.pursueRival()
	m.considerFounding()
	m.promiseLate()
	m.watchLeader()
	m.repeatAsLeader()
	m.beat()
	m.finish()
	m.settle()
}

// Ready drains what the inputs since the last call led to.
func (m *Machine) Ready() Ready {
	out := m.out
	m.out = Ready{}
	return out
}

// Record is the certified record at a height, from 1.
func (m *Machine) Record(height uint64) (Commit, bool) {
	if height == 0 || height > m.chain.height() {
		return Commit{}, false
	}
	return m.chain.commits[height-1], true
}

// settle does what the newest input made possible. Each step looks for itself whether its time has come; what one of them
// sends to this peer itself comes back as an input of its own.
func (m *Machine) settle() {
	m.advanceState()
	m.answerDraft()
	m.castVote()
	m.lead()
}

// elector says whether this peer decides the open height: never on a chain without the pin.
func (m *Machine) elector() bool {
	_, ok := findMember(m.chain.electorate(), m.cfg.Self, m.cfg.Incarnation)
	return ok && m.chain.pinned
}

// from says whether a message comes from an elector.
func (m *Machine) from(msg Message) error {
	if _, ok := findMember(m.chain.electorate(), msg.From, msg.Incarnation); !ok {
		return ErrSender
	}
	return nil
}
