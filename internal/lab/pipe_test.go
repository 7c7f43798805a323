package lab

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = time.Millisecond

// push is a packet of size bytes that enters a pipe at a time.
type push struct {
	at   time.Duration
	size int
}

// What carry says of packets that do not arrive.
const (
	lost   = -1
	noRoom = -2
)

// carry sends packets over one link and says when each arrived.
func carry(link Link, pushes []push) (arrivals []time.Duration) {
	w := newWire(2, Link{})
	w.setLink(0, 0, link)
	sent := make(map[*packet]int)
	for i, in := range pushes {
		w.run(in.at)
		pk, dropped := &packet{data: make([]byte, in.size), to: 1}, w.dropped
		w.send(in.at, pk)
		sent[pk], arrivals = i, append(arrivals, lost)
		if w.dropped > dropped {
			arrivals[i] = noRoom
		}
	}
	w.run(never)
	for _, a := range w.arrivals {
		arrivals[sent[a.packet]] = a.at
	}
	return arrivals
}

func TestPipe(t *testing.T) {
	for _, test := range []struct {
		name   string
		link   Link
		pushes []push
		want   []time.Duration
	}{
		{"no link at all", Link{}, []push{{0, 1500}, {0, 1500}, {5 * ms, 1500}}, []time.Duration{0, 0, 5 * ms}},
		{"delay", Link{Delay: 40 * ms}, []push{{0, 100}, {ms, 100}}, []time.Duration{40 * ms, 41 * ms}},
		{
			"rate: 1000 bytes take 8 ms at 1 Mbit/s",
			Link{Rate: 1e6},
			[]push{{0, 1000}, {0, 1000}, {20 * ms, 1000}},
			[]time.Duration{8 * ms, 16 * ms, 28 * ms},
		},
		{
			"rate and delay",
			Link{Rate: 1e6, Delay: 10 * ms},
			[]push{{0, 1000}, {0, 500}},
			[]time.Duration{18 * ms, 22 * ms},
		},
		{
			"the queue is full",
			Link{Rate: 1e6},
			[]push{{0, 32768}, {0, 32768}, {0, 1}, {263 * ms, 1000}},
			[]time.Duration{262_144_000, 524_288_000, noRoom, 532_288_000},
		},
		{
			"a smaller packet still has room",
			Link{Rate: 1e6},
			[]push{{0, 65_000}, {0, 1000}, {0, 500}},
			[]time.Duration{520 * ms, noRoom, 524 * ms},
		},
		{"all is lost", Link{Loss: 1000}, []push{{0, 1}, {0, 1}}, []time.Duration{lost, lost}},
		{
			"what is lost was sent all the same",
			Link{Rate: 1e6, Loss: 1000},
			[]push{{0, 1000}, {0, 1000}},
			[]time.Duration{lost, lost},
		},
	} {
		if got := carry(test.link, test.pushes); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func anyLink() *rapid.Generator[Link] {
	return rapid.Custom(func(t *rapid.T) Link {
		return Link{
			Rate:  rapid.SampledFrom([]int64{0, 1000, 1e6, 200e6, 1e11}).Draw(t, "rate"),
			Delay: time.Duration(rapid.Int64Range(0, int64(100*ms)).Draw(t, "delay")),
			Loss:  rapid.SampledFrom([]int{0, 0, 100, 1000}).Draw(t, "loss"),
		}
	})
}

func anyPushes(t *rapid.T) (pushes []push) {
	var now time.Duration
	for range rapid.IntRange(1, 200).Draw(t, "packets") {
		now += time.Duration(rapid.Int64Range(0, int64(3*ms)).Draw(t, "pause"))
		pushes = append(pushes, push{now, rapid.IntRange(20, 1500).Draw(t, "size")})
	}
	return pushes
}

// TestPipeKeepsItsBounds checks, of any link and traffic: no packet is earlier than its link
// allows; order is kept; over any stretch no more bytes come through than the rate lets; and equal
// packets arrive equally.
func TestPipeKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		link, pushes := anyLink().Draw(t, "link"), anyPushes(t)
		got := carry(link, pushes)
		if again := carry(link, pushes); !slices.Equal(got, again) {
			t.Fatalf("two links differ: %v, %v", got, again)
		}
		var waiting time.Duration // at the longest, rounded up
		if link.Rate > 0 {
			waiting = time.Duration(float64(link.queue())*8e9/float64(link.Rate)) + 1
		}
		sent, newest := 0, time.Duration(0) // bytes let in, at the least; newest arrival
		for i, in := range pushes {
			if got[i] < 0 {
				continue
			}
			earliest := in.at + link.Delay + link.sending(in.size)
			if got[i] < earliest {
				t.Fatalf("packet %d arrived at %v, cannot before %v", i, got[i], earliest)
			}
			if latest := max(newest, earliest+waiting); got[i] > latest {
				t.Fatalf("packet %d arrived at %v, must by %v", i, got[i], latest)
			}
			if got[i] < newest {
				t.Fatalf("packet %d overtook another", i)
			}
			newest = max(newest, got[i])
			sent += in.size
		}
		if least := link.sending(sent) + link.Delay - time.Duration(len(pushes)); sent > 0 && newest < least {
			t.Fatalf("%d bytes came through by %v, the rate lets them by %v", sent, newest, least)
		}
	})
}

// TestLossIsItsShare counts: of 20,000 packets at 50 per mille, 1,000 are lost on average, with a
// standard deviation of 31.
func TestLossIsItsShare(t *testing.T) {
	pushes := make([]push, 20_000)
	for i := range pushes {
		pushes[i] = push{0, 100}
	}
	n := 0
	for _, at := range carry(Link{Loss: 50}, pushes) {
		if at == lost {
			n++
		}
	}
	if n < 850 || n > 1150 {
		t.Errorf("%d of %d lost", n, len(pushes))
	}
}
