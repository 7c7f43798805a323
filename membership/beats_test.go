package membership

import (
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A leader plans nothing, and sends BEATs whose counters rise for ever. The others believe them for
// a while only, and decide the slot without it. It keeps its place: it is heard.
func TestBeatsAreNotBelievedForEver(t *testing.T) {
	l := labOf(t, "ABCD")
	leader := l.peer(labName(l.peers[0].m.open.leader(0).Peer))
	others := slices.DeleteFunc(slices.Clone(l.peers), func(p *labPeer) bool { return p == leader })
	open := leader.m.open.ref
	l.filters = []*labFilter{{from: leader.name, left: -1}}
	for _, p := range others {
		p.trains = true
		p.report(ReportContributes{Contributes: true})
	}
	bytes, began := uint64(0), l.now
	decided := func() bool { return others[0].m.chain.LastStep() > 0 }
	for !decided() && l.now-began < 2*time.Minute {
		bytes++
		beat := wire.Beat{Ref: open, Revision: 1, Offers: 3, Bytes: bytes}
		for _, p := range others {
			_ = p.step(labSigned(leader, beat))
		}
		l.run(200*time.Millisecond, decided)
	}
	if !decided() || l.now-began > 20*l.timing.Patience {
		t.Fatalf("no slot after %v\n%s", l.now-began, l.show())
	}
}
