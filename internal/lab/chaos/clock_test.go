package chaos

import (
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/test"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// TestAFastClockIsNamed: it is a fault if the newcomer or the others do not say so in time, or if
// the newcomer founds a run.
func TestAFastClockIsNamed(t *testing.T) {
	id, err := test.RandPeerID()
	if err != nil {
		t.Fatal(err)
	}
	named := &p2pdiloco.ClockStatus{Peers: []p2pdiloco.ClockOff{{Peer: slot.PeerID(id), Off: fast - time.Second}}}
	behind := &p2pdiloco.ClockStatus{Peers: []p2pdiloco.ClockOff{{Peer: slot.PeerID(id), Off: -fast}}}
	own := &p2pdiloco.ClockStatus{Off: fast + time.Second}
	for _, c := range []struct {
		name       string
		own, other *p2pdiloco.ClockStatus
		late       bool
		founded    bool
		over       bool
		odd        int
	}{
		{"both say so", own, named, false, false, true, 0},
		{"nobody does yet", nil, nil, false, false, false, 0},
		{"it alone does", own, nil, true, false, true, 1},
		{"the others alone", nil, named, true, false, true, 1},
		{"as behind", own, behind, true, false, true, 1},
		{"it founds a run", own, named, false, true, true, 1},
	} {
		r := paper(2)
		p := r.nodes[1]
		p.ID, p.status.Clocks, r.nodes[0].status.Clocks = id.String(), c.own, c.other
		f := &fault{Injected: Injected{lifted: time.Now()}, victims: []*node{p}}
		if c.late {
			f.lifted = f.lifted.Add(-clockWithin - time.Second)
		}
		if c.founded {
			p.heard = []eventlog.Line{{Event: "run.founded"}}
		}
		if over := r.clockSaid(f); over != c.over || len(r.odd) != c.odd {
			t.Errorf("%s: over %v, %q", c.name, over, r.odd)
		}
	}
}
