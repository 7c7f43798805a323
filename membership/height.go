package membership

import (
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// openHeight is the one height that is being decided, and all that may be forgotten once its record
// is certified.
//
// It is decided once, in two phases: HAVE, then VOTE. The acceptor's part is its pledge, which is
// on disk. Leaders and plans only arrange what gets drafted.
type openHeight struct {
	ref   slot.Ref      // the position, at ballot 0
	order []slot.Member // the leader of a term is order[term mod len]
	// peers of which an event has told that what they sent is refused
	refused []slot.PeerID
	following
	terms
	reduction
	holding
	lead *leading // nil unless this peer leads the ballot, or asks to
}

// following is this peer's view of the ballot that it follows: the highest that enough electors, or
// the term's leader, have shown. The fields below ballot belong to it.
type following struct {
	ballot   uint32
	led      bool          // its leader has shown progress, which takes a quorum of promises
	ledAt    time.Duration // when it first did
	plan     *slot.Plan
	planAt   time.Duration // when the leader last showed that plan
	planned  int           // plans of the term that an event has told
	draft    *wire.Draft   // valid, and this peer's HAVE is for no other one of the ballot
	haveSent bool          // it was sent since the newest DRAFT came
	proposal *wire.Propose // not voted for yet
	proposed bool          // one counted as progress
	objected slot.Root     // the draft that an event has told an objection to
	drafted  []slot.Root   // the outcomes of the term's drafts, each once
	beat     wire.Beat     // highest counters seen
	life     time.Duration // when the leader last showed progress
	revision uint32        // the newest revision that counted as progress, and how many did
	revised  int
}

// terms is what this peer knows of the time of the followed term, and how far the electors are.
type terms struct {
	owed       time.Duration // the time since which work is owed; never while none is
	began      time.Duration // when a quorum was known to have reached the term; never: not yet
	promised   map[memberKey]promise
	promisedAt time.Duration           // when the own promise was last shown
	ahead      map[uint32]wire.Message // plans of the next terms
}

// reduction is this peer's view of the open slot's reduction, whichever ballot planned it.
type reduction struct {
	last         *slot.Plan    // the newest plan that was followed
	groupReports groupReports  // this peer's reports about its group
	short        tooShort      // attempts that too few were left for
	bytes        uint64        // of the running reduction, received here
	progressAt   time.Duration // when bytes last came, or another circle of a ring began
}

// holding keeps which outcomes are on disk here, and what drafts asked for.
type holding struct {
	outcomes  map[slot.Root]bool // on disk; and next secrets, by their commitments
	fetching  slot.Root          // the one that the worker is asked for
	fetchedAt time.Duration
	audits    map[slot.Root]*audit // of records
	// contributors that showed nothing for an audit at this height, and the electors that say so
	hidden   map[slot.Offer]map[slot.PeerID]struct{}
	drafts   int           // drafts of members records that were seen at this height
	draftAt  time.Duration // when the last of them was seen
	accessAt time.Duration // when a draft of an access record was last seen
}

// height holds the open height for the parts that decide it. Machine replaces it when the chain
// grows, or is switched.
type height struct{ open *openHeight }

// position returns the open position in a ballot.
func (d *openHeight) position(ballot uint32) slot.Ref {
	ref := d.ref
	ref.Ballot = ballot
	return ref
}

// leader returns the leader of a ballot, or the zero member if no member can lead.
func (d *openHeight) leader(ballot uint32) slot.Member {
	if len(d.order) == 0 {
		return slot.Member{}
	}
	return d.order[d.position(ballot).Term()%uint32(len(d.order))]
}

// term returns the term of the followed ballot.
func (d *openHeight) term() uint32 { return d.position(d.ballot).Term() }

// leads says whether a message comes from the leader of a ballot.
func (d *openHeight) leads(msg wire.Message, ballot uint32) bool {
	l := d.leader(ballot)
	return l.Peer == msg.From && l.Incarnation == msg.Incarnation && l.Peer != ""
}

// groupReports is what this peer reports about the group of the newest plan.
type groupReports struct {
	group  slot.Root
	since  time.Duration   // when this peer first received a plan of it
	stated []ReportSegment // reduced ranges of own pieces
	lost   []ReportLost    // peers that failed this one, each once for a reason
}

// stated is what an owner has stated of a range, and signed.
type stated struct {
	slot.Segment
	signed wire.SignedSegment
}

// report is one peer's claim that another of its group failed it, or that it cannot take part
// itself.
type report struct {
	by, of slot.PeerID
	reason wire.LostReason
	at     time.Duration
}

// planning is how the leader arranges the reduction.
type planning struct {
	plan  *slot.Plan
	group slot.Root // of the plan
	// of the newest plan or draft; starts above any that an earlier process of this peer used
	revision uint32
	attempts int               // revisions of this attempt
	segments map[uint64]stated // by the element that they begin at
	reports  []report          // reports in this group of one peer about another
	// owners that stated ranges of too few contributors, since when
	statesTooFew map[slot.PeerID]time.Duration
	share        chain.Share // of the plan's offers
	// newcomers that revisions left out beside others that failed: nothing speaks against them
	crowded map[slot.PeerID]struct{}
	// groups have no more newcomers than they must, for the rest of the term
	fewest        bool
	listed        map[slot.PeerID]struct{}  // peers that some plan had
	excluded      map[slot.PeerID]exclusion // peers left out of plans
	banned        map[slot.PeerID]struct{}  // those of them that sent bad values or bytes
	holdOff       time.Duration             // no plan before this time
	failures      int                       // attempts that were given up at this height
	leftOutOfRing []slot.PeerID             // left out of rings because a neighbour reported them
	givenUp       slot.Root                 // the group of the last one
	// when the reduction last made progress, by a statement or by bytes that came here
	progressAt    time.Duration
	leftOutSilent int           // how often owners that owe statements were left out
	owing         []slot.PeerID // owners that owe statements
	owingAt       time.Duration // the time since which these owe them
	groups        int           // that this leader has opened, or gone on with
}

// drafting is the record that the leader wants decided.
type drafting struct {
	draft   *wire.Draft
	draftAt time.Duration
	haveAt  time.Duration // when the newest HAVE for it came
	// the newest HAVE of each peer for the draft's record: of this ballot, or carried along
	haves map[memberKey]wire.SignedHave
	// the same for each record that this leader has drafted in this term: a late HAVE for one that
	// was given up counts when it is drafted again
	given     map[slot.Root]map[memberKey]wire.SignedHave
	membersAt time.Duration // no draft of a members record before this time
}

// leading is what a ballot's leader keeps in memory. Losing it costs time, never agreement: only
// its draft and its vote bind, and those are on disk.
type leading struct {
	ref      slot.Ref
	prepared bool         // this peer may draft: at ballot 0, or once a quorum has promised
	grounds  wire.Grounds // of this ballot's draft, once prepared
	// the record that the promises force the leader to draft again, unchanged
	forced *wire.Locked
	planning
	drafting
	proposal *wire.QC
	votes    map[slot.PeerID][]byte // signatures of equal votes, equal in the ballot too (HOLES H4)
	decided  bool
	since    time.Duration // when this peer was first asked to lead here
	sentAt   time.Duration
	beatAt   time.Duration
}

// promise is one elector's PROMISE of the highest ballot, with the record of its lock if this peer
// leads that ballot.
type promise struct {
	wire.Promised
	ballot uint32
	locked *wire.Locked
}

// newLeading starts revisions at the store's boot count: a leader that restarts in its ballot
// revises what it planned before.
func newLeading(ref slot.Ref, boot uint64, now time.Duration) *leading {
	return &leading{
		ref: ref, since: now, sentAt: never, beatAt: never,
		planning: planning{
			revision: uint32(boot&0xffff) << 16,
			listed:   map[slot.PeerID]struct{}{}, excluded: map[slot.PeerID]exclusion{},
			banned: map[slot.PeerID]struct{}{}, statesTooFew: map[slot.PeerID]time.Duration{}, holdOff: never,
			crowded: map[slot.PeerID]struct{}{},
		},
		drafting: drafting{
			draftAt: never, membersAt: never, given: map[slot.Root]map[memberKey]wire.SignedHave{},
		},
	}
}

// nextTry is the leading of the next ballot of the same term: what was planned goes on.
func (l *leading) nextTry() *leading {
	n := newLeading(l.ref, 0, l.since)
	n.ref.Ballot++
	n.planning, n.membersAt, n.given = l.planning, l.membersAt, l.given
	n.plan = nil
	return n
}
