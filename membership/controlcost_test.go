package membership

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// costMeter counts what a lab's peers sign, check and send. A nil one counts nothing.
type costMeter struct {
	run     slot.Root
	leaders map[uint64]slot.PeerID // by height
	sent    map[string]int         // messages to single other peers, by type
	bytes   map[string]int         // of these
	one     map[string]int         // bytes of the largest one
	signed  map[string]int         // by type
	checked map[slot.PeerID]int
}

func newCostMeter(run slot.Root) *costMeter {
	return &costMeter{
		run: run, leaders: map[uint64]slot.PeerID{}, sent: map[string]int{}, bytes: map[string]int{},
		one: map[string]int{}, signed: map[string]int{}, checked: map[slot.PeerID]int{},
	}
}

// costKinds are the messages by which a record is decided.
var costKinds = []string{"DRAFT", "HAVE", "PROPOSE", "VOTE", "COMMIT"}

func (c *costMeter) check(p *labPeer) {
	if c != nil {
		c.checked[p.id]++
	}
}

func (p *labPeer) verify(by slot.PeerID, data, sig []byte) bool {
	if p.verified == nil {
		p.verified = newVerified(func(by slot.PeerID, data, sig []byte) bool {
			p.lab.meter.check(p)
			return labVerify(by, data, sig)
		})
	}
	return p.verified.check(by, data, sig)
}

// open checks the signature of a message, as a driver does. Without a meter nobody has to.
func (c *costMeter) open(p *labPeer, m wire.Message) {
	if c != nil {
		p.verify(m.From, slot.SignedBytes(m.Body.Type(), c.run, m.From, m.Incarnation, m.Body.Append(nil)), m.Sig)
	}
}

func (c *costMeter) send(p *labPeer, e wire.Envelope) {
	if c == nil {
		return
	}
	kind := wire.TypeName(e.Body.Type())
	switch b := e.Body.(type) {
	case wire.Draft:
		c.leaders[b.Height] = p.id
	case wire.Commit:
		if c.leaders[b.Certificate.Height] != p.id {
			kind = "COMMIT passed on"
		}
	}
	c.signed[kind]++
	c.count(p, kind, e.Body, len(without(e.To, p.id)))
	c.count(p, kind, e.Brief, len(e.BriefTo))
}

// count adds a message to so many peers.
func (c *costMeter) count(p *labPeer, kind string, body wire.Body, to int) {
	if to == 0 {
		return
	}
	_, b, err := wire.SealMessage(costSigner(p.id), c.run, p.inc, body)
	if err != nil {
		p.lab.t.Fatal(err)
	}
	c.sent[kind], c.bytes[kind], c.one[kind] = c.sent[kind]+to, c.bytes[kind]+to*len(b), max(c.one[kind], len(b))
}

// costSigner makes signatures as long as real ones.
type costSigner slot.PeerID

func (s costSigner) ID() slot.PeerID { return slot.PeerID(s) }

func (s costSigner) Sign([]byte) ([]byte, error) { return make([]byte, 64), nil }

// controlCost is what one step record costs.
type controlCost struct {
	members, electors int
	byzantine         bool
	heights           int // that were measured
	costMeter
	byElector float64 // signatures that an elector checks, in the mean
}

// costRules are those of a run of n first members, of which so many get a vote.
func costRules(n, electors int, byzantine bool) (r chain.Rules) {
	r = labRules()
	r.Run = slot.Hash(fmt.Appendf(nil, "cost of %d", n))
	r.Byzantine, r.StartPeers, r.MinPeers, r.MaxElectors = byzantine, n, n, electors
	r.Fragments = []uint64{uint64(n)}
	return r
}

// costLab is a swarm of n members, of which so many have a vote, with its first record behind it.
func costLab(t *testing.T, n, electors int, byzantine bool) *lab {
	l := newLab(t, costRules(n, electors, byzantine), costTiming)
	l.planner = costPlanner
	first := slot.Record{Run: l.rules.Run, Height: 1, Kind: slot.Fork, Prev: slot.Genesis(l.rules.Run).Hash()}
	first.StateRoot = slot.Hash([]byte("initial"))
	for i := range n {
		// a name as long as a real peer's
		p := &labPeer{lab: l, name: fmt.Sprintf("%033d", i), trains: true}
		p.id = labID(p.name)
		p.format()
		l.peers = append(l.peers, p)
		m := slot.Member{Peer: p.id, Incarnation: p.inc, Since: 1, Seat: 1}
		if byzantine {
			m.Credit = 64
		}
		if i >= electors {
			m.Seat = 0
		}
		first.Members = append(first.Members, m)
	}
	for _, p := range l.peers {
		if err := p.store.Save([]wire.Entry{wire.EntryCommit{Record: first}}); err != nil {
			t.Fatal(err)
		}
		p.states[1] = labState{first.StateRoot, first.Hash()}
		p.start()
	}
	l.connect()
	return l
}

// costTiming has few ALIVEs: they are no part of a record's cost.
var costTiming = Timing{
	Alive: 4 * time.Second, Beat: time.Second, Patience: 8 * time.Second, Lost: 30 * time.Second, Gone: 4 * time.Second,
	MinGrace: time.Second, GraceFactor: 2, Straggler: 30 * time.Second, FoundAfter: time.Second,
	Linger: 10 * time.Second, Retry: 4 * time.Second,
}

// costPlanner gives each contributor one element.
func costPlanner(p slot.Plan, _ slot.Links) (ps []slot.Piece, ring []uint16) {
	for i, o := range p.Offers {
		ps = append(ps, slot.Piece{Range: slot.Range{Begin: uint64(i), End: uint64(i) + 1}, Owner: o.Peer})
	}
	return ps, nil
}

// measureControl counts so many slots of a swarm.
func measureControl(t *testing.T, n, electors, slots int, byzantine bool) controlCost {
	const first = 1
	l := costLab(t, n, electors, byzantine)
	tip := func() slot.Record { return l.peers[0].m.View().Tip }
	at := func(s uint64) func() bool { return func() bool { return tip().Slot >= s } }
	if !l.run(time.Minute, at(first)) {
		t.Fatalf("%d members, %d electors, slot %d: %s", len(tip().Members), len(tip().Electors()), tip().Slot,
			strings.Join(l.log[max(0, len(l.log)-20):], "; "))
	}
	began := tip().Height
	l.meter = newCostMeter(l.rules.Run)
	if !l.run(time.Minute, at(first+uint64(slots))) {
		t.Fatalf("no more slots than %d", tip().Slot)
	}
	c := controlCost{
		members: len(tip().Members), electors: len(tip().Electors()), byzantine: byzantine,
		heights: int(tip().Height - began), costMeter: *l.meter,
	}
	for _, e := range tip().Electors() {
		c.byElector += float64(c.checked[e.Peer]) / float64(c.electors*c.heights)
	}
	if c.heights != slots || c.members != n {
		t.Errorf("%d slots took %d heights, with %d of %d members", slots, c.heights, c.members, n)
	}
	return c
}

// total is how much of some kinds of messages there is for each height.
func (c controlCost) total(of map[string]int, kinds ...string) float64 {
	sum := 0
	for _, k := range kinds {
		sum += of[k]
	}
	return float64(sum) / float64(c.heights)
}

// row is the measured counterpart of a row of the specification's table. A leader is one for each
// height, an elector the mean of all.
func (c controlCost) row() string {
	trust := "crash"
	if c.byzantine {
		trust = "byzantine"
	}
	kB := func(n float64) string { return strconv.FormatFloat(n/1e3, 'f', btoi(n < 20e3), 64) }
	return fmt.Sprintf("| %d, %d | %s | %.0f | %.0f + %.0f | %.0f | %s | %s | %s = %s + %s + %s, PLAN %s | "+
		"%s, SEGMENT %s |",
		c.members, c.electors, trust, c.total(c.sent, costKinds...), c.total(c.signed, costKinds...),
		c.total(c.signed, "OFFER", "PLAN", "SEGMENT"), c.byElector,
		kB(float64(c.one["PROPOSE"]-c.one["VOTE"])), kB(float64(c.one["DRAFT"])),
		kB(c.total(c.bytes, "DRAFT", "PROPOSE", "COMMIT")), kB(c.total(c.bytes, "DRAFT")),
		kB(c.total(c.bytes, "PROPOSE")), kB(c.total(c.bytes, "COMMIT")), kB(c.total(c.bytes, "PLAN")),
		kB(c.total(c.bytes, "HAVE", "VOTE")/float64(c.electors)), kB(c.total(c.bytes, "SEGMENT")/float64(c.members)))
}

// The specification's table (BYZANTINE.md 11), and what is measured beside it.
const costTable = `
| members, electors | trust | messages | signed | checked by each | QC | DRAFT | leader sends | elector sends |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |`

var costSizes = []struct {
	members, electors int
	specified         string
}{
	{8, 7, "| 8, 7 | specified | 36 | 15 | 27 | 0.4 | 2.5 | 24 | 0.3 |"},
	{31, 31, "| 31, 31 | specified | 155 | 63 | 105 | 1.4 | 9.1 | 369 | 0.3 |"},
	{128, 31, "| 128, 31 | specified | 252 | 63 | 299 | 1.4 | 38 | 1409 | 0.3 |"},
}

// TestControlCost prints what a step record costs beside what the specification says, and holds
// the signatures against a bound. The largest run takes long, so it is done at night only:
//
//	P2PDILOCO_TEST=nightly go test ./membership -run TestControlCost -v
func TestControlCost(t *testing.T) {
	t.Parallel()
	lines := []string{costTable}
	for _, s := range costSizes {
		slots := testutil.Choose(2, 2, 6)
		if s.members > 31 {
			slots = 1
		}
		if slots == 1 && !testutil.Nightly() {
			break
		}
		lines = append(lines, s.specified)
		for _, byzantine := range []bool{true, false} {
			c := measureControl(t, s.members, s.electors, slots, byzantine)
			lines = append(lines, c.row())
			// HAVE and VOTE of each, the leader's three, and the votes that are shown to all, of
			// some
			if made := c.total(c.signed, costKinds...); made > 2.5*float64(c.electors)+3 {
				t.Errorf("%d of %d members vote: %.1f signatures for a record", c.electors, c.members, made)
			}
		}
	}
	t.Log(strings.Join(lines, "\n"))
}
