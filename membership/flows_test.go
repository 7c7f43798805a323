package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// flow is a random world of trust byzantine: peers join, with a trainer or without, die, come back,
// lose their disks and leave, and get seats. Nobody lies, and nobody forks.
type flow struct {
	*lab
	r      *rand.Rand
	events []string
}

func newFlow(t *testing.T, seed uint64) *flow {
	r := rand.New(rand.NewPCG(seed, 5))
	rules := labRules()
	rules.Byzantine, rules.NewcomerShare = true, 500
	rules.StartPeers = 1 + r.IntN(5)
	rules.MinPeers = 1 + r.IntN(min(3, rules.StartPeers))
	f := &flow{lab: newLab(t, rules, labTiming), r: r}
	for range rules.StartPeers {
		f.join(true)
	}
	return f
}

func (f *flow) join(trains bool) {
	p := f.add(string(rune('A' + len(f.peers))))
	if !trains {
		p.trains = false
		p.report(ReportContributes{})
	}
	f.note("join %s %v", p.name, trains)
	f.connect()
}

func (f *flow) note(format string, args ...any) {
	f.events = append(f.events, fmt.Sprintf("%v ", f.now)+fmt.Sprintf(format, args...))
}

// newest is the record of the highest tip that a living peer has.
func (f *flow) newest() (r slot.Record) {
	for _, p := range f.peers {
		if p.up() && p.m.chain.Height() >= r.Height {
			r = p.m.chain.Tip()
		}
	}
	return r
}

// decides says whether a quorum of the newest record's electors lives, without one peer.
func (f *flow) decides(without *labPeer) bool {
	electors := f.newest().Electors()
	return f.rules.Quorum(electors, func(e slot.Member) bool {
		return slices.ContainsFunc(f.peers, func(p *labPeer) bool {
			return p != without && p.up() && p.id == e.Peer && p.inc == e.Incarnation && !p.m.own.leaving
		})
	})
}

// works counts the living peers that train.
func (f *flow) works() (n int) {
	for _, p := range f.peers {
		if p.up() && p.trains && !p.m.own.leaving {
			n++
		}
	}
	return n
}

// event lets one thing happen, if a quorum stays.
func (f *flow) event() {
	p := f.peers[f.r.IntN(len(f.peers))]
	switch what := f.r.IntN(8); {
	case what < 2 && len(f.peers) < 10:
		f.join(f.r.IntN(3) > 0)
	case p.gone:
	case !p.up():
		if f.r.IntN(4) == 0 {
			p.format()
		}
		f.note("start %s", p.name)
		p.start()
	case !f.decides(p):
	case what < 5:
		f.note("crash %s", p.name)
		p.crash()
	case what == 5 && f.works() > f.rules.MinPeers:
		f.note("leave %s", p.name)
		p.report(ReportLeave{})
		p.gone = true
	}
	f.connect()
}

func (f *flow) fail(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Fatalf("%s\nstart_peers %d, min_peers %d\n%s\n%s", fmt.Sprintf(format, args...), f.rules.StartPeers,
		f.rules.MinPeers, strings.Join(f.events, "\n"), f.show())
}

// While a quorum of the electors lives, and enough peers train, slots are decided, whoever comes
// and goes. Peers that never contributed have no seat, but the first ones (BYZANTINE 5, A4).
func TestFlows(t *testing.T) {
	worlds := uint64(16)
	if testing.Short() {
		worlds = 6
	}
	seats, most := 0, 0
	for seed := range worlds {
		f := newFlow(t, seed)
		contributed, first := map[slot.PeerID]bool{}, map[memberKey]bool{}
		for range 12 {
			f.run(time.Duration(f.r.IntN(6000))*time.Millisecond, func() bool { return false })
			f.event()
		}
		f.run(10*time.Second, func() bool { return false })
		if before := f.newest().Slot; f.decides(nil) && f.works() >= f.rules.MinPeers {
			if !f.run(time.Minute, func() bool { return f.newest().Slot >= before+2 }) {
				f.fail(t, "seed %d: no slot after %d", seed, before)
			}
		}
		for _, fault := range f.watch.faults {
			f.fail(t, "seed %d: %s", seed, fault)
		}
		c := f.longest()
		for _, k := range c.m.chain.Commits() {
			for _, o := range k.Record.Contributions {
				contributed[o.Peer] = true
			}
			for _, e := range k.Record.Members {
				if e.Since == k.Record.Height && e.Credit > 0 {
					first[ofMember(e)] = true
				}
				if e.Elects() && !first[ofMember(e)] && !contributed[e.Peer] {
					f.fail(t, "seed %d: %s has a seat and never contributed", seed, labName(e.Peer))
				}
			}
			most = max(most, len(k.Record.Electors()))
		}
		if len(first) == 0 || len(c.m.chain.Commits()) == 0 {
			f.fail(t, "seed %d: no run", seed)
		}
		seats += len(c.m.chain.Electorate())
	}
	if most < 4 {
		t.Errorf("no run has more than %d electors", most)
	}
	t.Logf("%d electors at the end of %d worlds, at most %d", seats, worlds, most)
}

// longest is the living peer with the longest chain.
func (f *flow) longest() (best *labPeer) {
	for _, p := range f.peers {
		if p.up() && (best == nil || p.m.chain.Height() > best.m.chain.Height()) {
			best = p
		}
	}
	return best
}
