package p2p

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// BenchmarkFatLink sends over QUIC in one direction of a simulated link with a round trip of 100
// ms, on some streams at once. Mbit/s is what goes through in virtual time, headers not counted,
// once it is steady. At 1 Gbit/s congestion control is the limit; at 4 Gbit/s nothing is lost, and
// the windows are.
func BenchmarkFatLink(b *testing.B) {
	for _, gigabits := range []int{1, 4} {
		for _, streams := range []int{1, 2} {
			b.Run(fmt.Sprintf("gbit=%d/streams=%d", gigabits, streams), func(b *testing.B) {
				rate := 0.0
				for b.Loop() {
					rate = fatLink(b, gigabits, streams)
				}
				b.ReportMetric(rate, "Mbit/s")
			})
		}
	}
}

// fatLink needs a testing.T for its bubble, which a benchmark has not: a run of tests within it
// has.
func fatLink(b *testing.B, gigabits, streams int) (rate float64) {
	all := func(string, string) (bool, error) { return true, nil }
	if !testing.RunTests(all, []testing.InternalTest{{Name: "bubble", F: func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { rate = fillFatLink(t, gigabits, streams) })
	}}}) {
		b.Error("the transfer failed")
	}
	return rate
}

func fillFatLink(t *testing.T, gigabits, streams int) float64 {
	const warmUp, measured = 8 * time.Second, 2 * time.Second
	s := sim.New(t, 0, 50*time.Millisecond)
	s.Rate = gigabits * 1_000_000_000
	s.Add()
	s.Add()
	from, to := simulated(t, s, 0, WAN()), simulated(t, s, 1, WAN())
	s.Connect(0, 1)
	to.Handle(ProtocolExchange, func(_ slot.PeerID, w wire.Stream) { _, _ = io.Copy(io.Discard, w) })
	var sending sync.WaitGroup
	for range streams {
		w, err := from.OpenBulk(t.Context(), to.ID(), ProtocolExchange)
		if err != nil {
			t.Fatal(err)
		}
		sending.Go(func() {
			chunk := make([]byte, 256<<10)
			for err := error(nil); err == nil; {
				_, err = w.Write(chunk)
			}
		})
		defer w.Reset() //nolint:errcheck // the end
	}
	time.Sleep(warmUp)
	before := to.Traffic().Exchange.Received
	time.Sleep(measured)
	got := to.Traffic().Exchange.Received - before
	from.Close() //nolint:errcheck,gosec // ends the senders
	sending.Wait()
	return float64(8*got) / 1e6 / measured.Seconds()
}
