package p2p

import (
	"io"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/bulk"
)

// TestDownloadHoldsSendersBack has two peers send to one as fast as they can: all together come at
// its rate, none gets more than the other, and the senders' writes take as long. Another stream, of
// control, comes at once.
func TestDownloadHoldsSendersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, lasts = 1_000_000, 30 * time.Second
		s := sim.New(t, 0, 10*time.Millisecond)
		s.Rate = 40 * rate // bits a second: five times as fast
		for range 3 {
			s.Add()
		}
		s.ConnectAll()
		slow := LAN()
		slow.MaxDownload = rate
		to := simulated(t, s, 0, slow)
		var mu sync.Mutex
		came := make(map[slot.PeerID]int)
		end := time.Now().Add(lasts)
		to.Handle(ProtocolExchange, func(from slot.PeerID, s wire.Stream) {
			for b := make([]byte, 256<<10); ; {
				k, err := s.Read(b)
				if err != nil || time.Now().After(end) {
					_ = s.Reset()
					return
				}
				mu.Lock()
				came[from] += k
				mu.Unlock()
			}
		})
		to.Handle(ProtocolLedger, echo)
		var sending sync.WaitGroup
		var sent [2]int
		var from [2]*Network
		for i := range from {
			from[i] = simulated(t, s, i+1, LAN())
			sending.Go(func() {
				out, err := from[i].OpenBulk(t.Context(), to.ID(), ProtocolExchange)
				if err != nil {
					t.Error(err)
					return
				}
				for b := make([]byte, 64<<10); err == nil && time.Now().Before(end); {
					var k int
					k, err = out.Write(b)
					sent[i] += k
				}
				_ = out.Reset()
			})
		}
		time.Sleep(lasts / 2)
		began := time.Now()
		if _, err := roundTrip(t.Context(), from[0], to.ID(), ProtocolLedger, make([]byte, 1000)); err != nil ||
			time.Since(began) > 5*time.Second {
			t.Errorf("a control message took %s: %v", time.Since(began), err)
		}
		sending.Wait()
		const each = rate * float64(lasts/time.Second) / 2
		for i, n := range from {
			if got := float64(came[n.ID()]); math.Abs(got-each) > each/10 {
				t.Errorf("%.0f bytes came of one, want %.0f", got, each)
			}
			if got := float64(sent[i]); got > 1.4*each { // what buffers hold is sent, too
				t.Errorf("%.0f bytes were written by one, want about %.0f", got, each)
			}
		}
	})
}

// TestDownloadOfBulkConnections reads at a rate from a bulk connection, which is TCP.
func TestDownloadOfBulkConnections(t *testing.T) {
	const rate, total = 4_000_000, 1_000_000
	a, b := tcpPair(t, func(c *Config) { c.MaxDownload = rate })
	took := make(chan time.Duration, 1)
	b.Handle(ProtocolState, func(_ slot.PeerID, s wire.Stream) {
		began := time.Now()
		if n, err := io.Copy(io.Discard, s); n != total || err != nil {
			t.Errorf("%d bytes came: %v", n, err)
		}
		took <- time.Since(began)
	})
	s := openBulk(t, a, b, ProtocolState)
	if _, isBulk := s.(*bulk.Stream); !isBulk {
		t.Fatalf("a stream of type %T", s)
	}
	if _, err := s.Write(make([]byte, total)); err != nil {
		t.Fatal(err)
	}
	noError(t, s.Close())
	if d := <-took; d < 150*time.Millisecond { // the machine may make it longer
		t.Errorf("%d bytes at %d a second took %s", total, rate, d)
	}
}
