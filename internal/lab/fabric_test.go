package lab

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// wire is a fabric under test: it writes down what arrives.
type wire struct {
	*fabric
	arrivals []arrival
}

type arrival struct {
	*packet
	at time.Duration
}

func newWire(nodes int, link Link) *wire { return &wire{fabric: newFabric(nodes, link)} }

// put sends a packet of some bytes, once all that is due by then is delivered.
func (w *wire) put(now time.Duration, from, to, size int) {
	w.run(now)
	w.send(now, &packet{data: make([]byte, size), from: from, to: to})
}

// run delivers all that is due until a time, each thing when it is due.
func (w *wire) run(until time.Duration) {
	for at := w.next(); at <= until && at != never; at = w.next() {
		for _, pk := range w.deliver(at) {
			w.arrivals = append(w.arrivals, arrival{pk, at})
		}
	}
}

func (w *wire) check(t *testing.T, want string) {
	t.Helper()
	w.run(never)
	got := ""
	for _, a := range w.arrivals {
		got += fmt.Sprintf("%d>%d@%d ", a.from, a.to, a.at.Milliseconds())
	}
	if got != want+" " || w.onTheWay != 0 {
		t.Errorf("arrived: %s\n   want: %s, and %d are still on their way", got, want, w.onTheWay)
	}
}

// A packet of 1000 bytes takes 8 ms on each of two links of 1 Mbit/s, and 10 ms of delay on each.
var slow = Link{Rate: 1e6, Delay: 10 * ms}

func TestBothLinksAreCrossed(t *testing.T) {
	w := newWire(3, slow)
	w.put(0, 0, 1, 1000)
	w.put(0, 0, 2, 1000) // waits for the uplink
	w.put(0, 2, 1, 1000) // waits for the downlink of 1
	w.check(t, "0>1@36 2>1@44 0>2@44")
}

func TestAFasterLinkTakesOver(t *testing.T) {
	w := newWire(2, Link{})
	w.setLink(0, 0, Link{Rate: 1e4}) // 800 ms a packet
	for range 3 {
		w.put(0, 0, 1, 1000)
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
}

// TestWhatIsOnItsWayIsCut: packets sent before a cut that lasts until they would arrive are lost;
// later ones pass.
func TestWhatIsOnItsWayIsCut(t *testing.T) {
	w := newWire(2, Link{Delay: 10 * ms})
	w.put(0, 0, 1, 1000)
	w.cuts = []cut{{[]int{1}, func(_, to bool) bool { return to }}}
	w.put(5*ms, 0, 1, 1000)
	w.run(30 * ms)
	w.heal()
	w.put(40*ms, 0, 1, 1000)
	w.check(t, "0>1@60")
}

// TestMemoryIsBounded floods links that have delay but no rate.
func TestMemoryIsBounded(t *testing.T) {
	w := newWire(2, Link{Delay: time.Second})
	for range maxPackets + 5 {
		w.send(0, &packet{data: make([]byte, 20), to: 1})
	}
	if n := len(w.pipes[0].waiting) + len(w.pipes[0].wire); n != maxPackets || w.onTheWay != n {
		t.Errorf("%d packets, %d on their way", n, w.onTheWay)
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
			i, j := node.Draw(t, "from"), node.Draw(t, "to")
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			case 0:
				w.run(now)
				w.setLink(now, i, anyLink().Draw(t, "link"))
			case 1:
				w.cuts = append(w.cuts, cut{[]int{i, j}, func(from, to bool) bool { return from && to }})
			case 2:
				w.heal()
			default:
				w.put(now, i, j, 20+sent)
				sent++
			}
		}
		w.run(never)
		if n := len(w.arrivals); w.onTheWay != 0 || n+w.dropped != sent {
			t.Fatalf("%d sent, %d arrived, %d dropped, %d on their way", sent, n, w.dropped, w.onTheWay)
		}
		newest := make(map[[2]int]int)
		for _, pk := range w.arrivals {
			way := [2]int{pk.from, pk.to}
			if len(pk.data) <= newest[way] {
				t.Fatalf("order between %v is lost", way)
			}
			newest[way] = len(pk.data)
		}
	})
}
