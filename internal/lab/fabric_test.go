package lab

import (
	"fmt"
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
	w.setLink(0, 0, Link{Rate: 1e4}) // 800 ms a packet
	for range 3 {
		w.put(0, 0, 1)
	}
	w.run(900 * ms) // one is through
	w.setLink(900*ms, 0, Link{Rate: 1e6})
	w.check(t, "0>1@800 0>1@908 0>1@916")
}

// TestALatePumpCostsNoPackets: a queue has room as soon as packets have left it, even if the pump
// looks late.
func TestALatePumpCostsNoPackets(t *testing.T) {
	w := newWire(2, Link{})
	w.setLink(0, 0, Link{Rate: 1e6})
	for i := range 3 {
		w.send(time.Duration(i)*320*ms, &packet{data: make([]byte, 40_000), to: 1})
	}
	w.check(t, "0>1@0 0>1@0 0>1@960") // the first two were delivered as soon as anybody asked
	if w.dropped != 0 {
		t.Errorf("%d dropped", w.dropped)
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
	if w.dropped != 2 {
		t.Errorf("%d dropped", w.dropped)
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
// dropped once; and the order between two nodes is kept.
func TestEveryPacketIsAccountedFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const nodes = 3
		node := rapid.IntRange(0, nodes-1)
		w := newWire(nodes, anyLink().Draw(t, "link"))
		var now time.Duration
		sent := 0
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(5*ms)).Draw(t, "pause"))
			w.run(now)
			i, j := node.Draw(t, "from"), node.Draw(t, "to")
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			case 0:
				w.setLink(now, i, anyLink().Draw(t, "link"))
			case 1:
				w.cuts.cutPair(i, j)
			case 2:
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
		if w.onTheWay != 0 || len(arrived)+w.dropped+len(w.log) != sent {
			t.Fatalf("%d sent, %d arrived, %d dropped, on their way %d", sent, len(arrived)+len(w.log), w.dropped, w.onTheWay)
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
