package membership

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// Every one of an audience gets a COMMIT once, over three others at most, and nobody passes it to
// more than a few.
func TestACommitReachesAll(t *testing.T) {
	for _, n := range []int{directMost + 1, 73, 200, 500, slot.MaxMembers} {
		r := newLargeRun(n)
		before := r.members[:n-n/5] // a fifth is new
		c := r.record(slot.Step)
		lead := r.ids[3]
		all := audience(lead, before, c)
		if all[0] != lead || len(all) != n {
			t.Fatalf("%d peers, led by %q, want %d and %q", len(all), all[0], n, lead)
		}
		hops := map[slot.PeerID]int{all[0]: 0}
		for queue := all[:1:1]; len(queue) > 0; queue = queue[1:] {
			to := passesTo(all, queue[0])
			if len(to) > commitFan {
				t.Errorf("of %d one passes to %d", n, len(to))
			}
			for _, p := range to {
				if _, again := hops[p]; again {
					t.Fatalf("of %d %q gets it twice", n, p)
				}
				if hops[p] = hops[queue[0]] + 1; hops[p] > 4 {
					t.Errorf("of %d %q gets it after %d hops", n, p, hops[p])
				}
			}
			queue = append(queue, to...)
		}
		if len(hops) != n {
			t.Errorf("%d of %d get it", len(hops), n)
		}
		if c.Prev[0]++; audience(lead, before, c)[1] == all[1] {
			t.Error("another record has the same order")
		}
	}
}

// A leader of many sends a COMMIT to a few, all apply it at once nevertheless, and those behind a
// peer that passes nothing on get it soon.
func TestALargeSwarmPassesCommitsOn(t *testing.T) {
	if !testutil.Nightly() {
		t.Skip("for .ci/nightly: it takes ten seconds")
	}
	const first, n = maxStrangers - 4, directMost + 16
	rules := labRules()
	rules.StartPeers = n
	l := newLab(t, rules, labTiming)
	for i := range n {
		l.add(fmt.Sprintf("%03d", i))
		if i == first {
			l.connect()
			l.run(time.Minute, func() bool { return len(l.peers[0].m.chain.Electorate()) >= first })
		}
	}
	l.connect()
	at := func(s uint64) func() bool {
		return func() bool {
			for _, p := range l.peers {
				if p.m.model.state.slot < s {
					return false
				}
			}
			return true
		}
	}
	l.awaits(t, "slot 1", at(1))
	l.large = map[string]int{}
	tip := l.peers[0].m.chain.Height()
	l.awaits(t, "slot 2", at(2))
	most := 0
	for _, k := range l.large {
		most = max(most, k)
	}
	t.Logf("one peer sent %d COMMITs at most", most)
	if records := l.peers[0].m.chain.Height() - tip; most > int(records)*commitFan {
		t.Errorf("one peer sent %d COMMITs for %d records", most, records)
	}
	c := l.peers[0].m.chain
	lead := slot.LeaderOrder(c.Rules().Run, c.Height()+1, c.Electorate())[0].Peer
	// among them peers that should pass the next COMMIT on, and pass it to nobody
	var hushed []string
	for _, p := range l.peers[n-30:] {
		if p.id != lead {
			hushed = append(hushed, p.name)
		}
	}
	l.filters = append(l.filters, &labFilter{from: strings.Join(hushed, ","), kind: "commit", left: -1})
	began := l.now
	l.within(t, 20*labTiming.Retry, "slots in spite of some that pass nothing on", at(3))
	t.Logf("with %d that pass nothing on, all have the next slot after %s", len(hushed), l.now-began)
}
