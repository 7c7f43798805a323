package lab

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// wire is a fabric under test: it writes down what arrives and when, and counts packets that were
// dropped.
type wire struct {
	*fabric
	log     []string
	dropped int
}

func newWire(nodes int, link Link) *wire {
	w := &wire{}
	w.fabric = newFabric(nodes, link, 1, func(*packet) { w.dropped++ })
	return w
}

// put sends a packet of 1000 bytes.
func (w *wire) put(now time.Duration, from, to int) {
	w.run(now)
	w.send(now, &packet{data: make([]byte, 1000), from: from, to: to})
}

// run delivers all that is due until a time, each thing when it is due.
func (w *wire) run(until time.Duration) {
	for {
		at, ok := w.next()
		if !ok || at > until {
			return
		}
		for _, pk := range w.deliver(at, nil) {
			w.log = append(w.log, fmt.Sprintf("%d>%d@%d", pk.from, pk.to, at.Milliseconds()))
		}
	}
}

func (w *wire) check(t *testing.T, want string) {
	t.Helper()
	w.run(never)
	if got := strings.Join(w.log, " "); got != want {
		t.Errorf("arrived: %s\n   want: %s", got, want)
	}
	if w.onTheWay != 0 {
		t.Errorf("%d packets are still on their way", w.onTheWay)
	}
	w.log = nil
}

// A packet of 1000 bytes takes 8 ms on each of two links of 1 Mbit/s, and 10 ms of delay on each.
var slow = Link{Rate: 1e6, Delay: 10 * ms}

func TestBothLinksAreCrossed(t *testing.T) {
	w := newWire(3, slow)
	w.put(0, 0, 1)
	w.put(0, 0, 2) // waits for the uplink
	w.put(0, 2, 1) // waits for the downlink of 1
	w.check(t, "0>1@36 0>2@44 2>1@44")
}

func TestAFasterLinkTakesOver(t *testing.T) {
	w := newWire(2, Link{})
	w.setLink(0, 0, Link{Rate: 1e4, Queue: 10_000}) // 800 ms a packet
	for range 4 {
		w.put(0, 0, 1)
	}
	w.run(900 * ms) // one is through
	w.setLink(900*ms, 0, Link{Rate: 1e6, Queue: 2000})
	w.check(t, "0>1@800 0>1@908 0>1@916") // and the new queue has room for two
	if got := w.stats[0].Overflowed; got != 1 || w.dropped != 1 {
		t.Errorf("%d overflowed, %d dropped", got, w.dropped)
	}
}

// TestALatePumpCostsNoPackets: a queue has room as soon as packets have left it, even if the pump
// looks late.
func TestALatePumpCostsNoPackets(t *testing.T) {
	w := newWire(2, Link{})
	w.setLink(0, 0, Link{Rate: 1e6, Queue: 1000})
	for i := range 3 {
		w.send(time.Duration(i)*8*ms, &packet{data: make([]byte, 1000), to: 1})
	}
	w.check(t, "0>1@0 0>1@0 0>1@24") // the first two were delivered as soon as anybody asked
	if w.dropped != 0 {
		t.Errorf("%d dropped", w.dropped)
	}
}

func TestAPairMayBeFarApart(t *testing.T) {
	w := newWire(3, Link{Delay: 10 * ms})
	w.setPair(0, 0, 1, Link{Delay: 100 * ms})
	w.put(0, 0, 1)
	w.put(0, 1, 0)
	w.put(0, 0, 2)
	w.check(t, "0>2@20 0>1@120 1>0@120")
	w.setPair(200*ms, 1, 0, Link{})
	w.put(200*ms, 0, 1)
	w.check(t, "0>1@220")
}

// TestMute: a packet of a muted node goes nowhere, those of others reach it.
func TestMute(t *testing.T) {
	c := newCuts(3)
	c.muted[1] = true
	for _, way := range []struct {
		from, to int
		want     bool
	}{{1, 0, true}, {1, 2, true}, {0, 1, false}, {2, 1, false}, {0, 2, false}} {
		if c.apart(way.from, way.to) != way.want {
			t.Errorf("from %d to %d: %v", way.from, way.to, !way.want)
		}
	}
	other := newCuts(3)
	other.muted[2] = true
	if other.heal(); other.apart(2, 0) {
		t.Error("all is healed, and node 2 is muted")
	}
	if c.healNode(1); c.apart(1, 0) {
		t.Error("node 1 is healed, and muted")
	}
}

func TestCuts(t *testing.T) {
	for _, test := range []struct {
		name string
		cut  func(*cuts)
		want string // pairs that are apart
	}{
		{"nothing", func(*cuts) {}, ""},
		{"a node", func(c *cuts) { c.nodes[1] = true }, "01 12 13"},
		{"a pair", func(c *cuts) { c.cutPair(3, 1) }, "13"},
		{"halves", func(c *cuts) { c.partition([][]int{{0, 1}, {2, 3}}) }, "02 03 12 13"},
		{"one named, the others together", func(c *cuts) { c.partition([][]int{{2}}) }, "02 12 23"},
		{
			"the second partition counts", func(c *cuts) { c.partition([][]int{{0}}); c.partition([][]int{{1}}) },
			"01 12 13",
		},
		{"one node healed", func(c *cuts) { c.cutPair(0, 1); c.cutPair(2, 3); c.nodes[0] = true; c.healNode(0) }, "23"},
		{"healed", func(c *cuts) { c.nodes[0] = true; c.cutPair(1, 2); c.partition([][]int{{3}}); c.heal() }, ""},
	} {
		c := newCuts(4)
		test.cut(&c)
		var apart []string
		for i := range 4 {
			for j := range 4 {
				if c.apart(i, j) != c.apart(j, i) {
					t.Errorf("%s: %d and %d differ", test.name, i, j)
				}
				if i < j && c.apart(i, j) {
					apart = append(apart, fmt.Sprint(i, j))
				}
			}
		}
		if got := strings.ReplaceAll(strings.Join(apart, ","), " ", ""); got != strings.ReplaceAll(test.want, " ",
			",") {
			t.Errorf("%s: apart are %s, want %s", test.name, got, test.want)
		}
	}
}

// TestWhatIsOnItsWayIsCut: packets sent before a cut that lasts until they would arrive are lost;
// later ones pass.
func TestWhatIsOnItsWayIsCut(t *testing.T) {
	w := newWire(2, Link{Delay: 10 * ms})
	w.put(0, 0, 1)
	w.cuts.nodes[1] = true
	w.put(5*ms, 0, 1)
	w.run(30 * ms)
	w.cuts.heal()
	w.put(40*ms, 0, 1)
	w.check(t, "0>1@60")
	if w.stats[0].Cut != 2 || w.stats[0].SentPackets != 3 || w.stats[1].ReceivedBytes != 1000 {
		t.Errorf("sender %+v, receiver %+v", w.stats[0], w.stats[1])
	}
}

// TestMemoryIsBounded floods links that have delay but no rate.
func TestMemoryIsBounded(t *testing.T) {
	w := newWire(2, Link{Delay: time.Second})
	pk := packet{data: make([]byte, 20), to: 1}
	for range maxPackets + 5 {
		one := pk
		w.send(0, &one)
	}
	if w.dropped != 5 || w.onTheWay != maxPackets {
		t.Errorf("%d dropped, %d on their way", w.dropped, w.onTheWay)
	}
}

// TestEveryPacketIsAccountedFor: whatever the links, cuts and changes, a packet arrives once or is
// dropped once, and the counters say so; and the order between two nodes is kept.
func TestEveryPacketIsAccountedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const nodes = 3
		node := rapid.IntRange(0, nodes-1)
		link := anyLink().Draw(t, "link")
		link.Reorder = false
		w := newWire(nodes, link)
		var now time.Duration
		sent := 0
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(5*ms)).Draw(t, "pause"))
			w.run(now)
			i, j := node.Draw(t, "from"), node.Draw(t, "to")
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			case 0:
				next := anyLink().Draw(t, "link")
				next.Reorder = false
				w.setLink(now, i, next)
			case 1:
				w.setPair(now, i, j, Link{Delay: ms, Rate: 1e6})
			case 2:
				w.cuts.cutPair(i, j)
			case 3:
				w.cuts.heal()
			default:
				w.send(now, &packet{data: make([]byte, 20+sent), from: i, to: j})
				sent++
			}
		}
		var arrived []*packet
		for at, ok := w.next(); ok; at, ok = w.next() {
			arrived = append(arrived, w.deliver(at, nil)...)
		}
		var total Stats
		for _, s := range w.stats {
			total.SentPackets += s.SentPackets
			total.ReceivedPackets += s.ReceivedPackets
			total.Lost += s.Lost + s.Cut + s.Overflowed
		}
		if w.onTheWay != 0 || int(total.SentPackets) != sent || int(total.Lost) != w.dropped ||
			int(total.ReceivedPackets)+w.dropped != sent {
			t.Fatalf("%d sent, %d dropped, counters %+v, on their way %d", sent, w.dropped, total, w.onTheWay)
		}
		newest := make(map[pair]int)
		for _, pk := range arrived {
			way := pair{pk.from, pk.to}
			if len(pk.data) <= newest[way] {
				t.Fatalf("order between %v is lost", way)
			}
			newest[way] = len(pk.data)
		}
	})
}

// TestAgendaSorts compares the heap with a stable sort.
func TestAgendaSorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(0, 10), 1, 100).Draw(t, "times")
		var a agenda
		var want []event
		for i, at := range times {
			a.add(event{at: time.Duration(at)})
			want = append(want, event{at: time.Duration(at), number: uint64(i)})
		}
		slices.SortFunc(want, func(x, y event) int {
			if x.before(y) {
				return -1
			}
			return 1
		})
		for _, e := range want {
			if got := a.take(); got != e {
				t.Fatalf("%+v came, want %+v", got, e)
			}
		}
	})
}
