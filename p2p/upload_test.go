package p2p

import (
	"errors"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// limitedNetwork is as much of a Network as an upload needs.
func limitedNetwork(rate float64) *Network {
	n := &Network{}
	n.upload.rate, n.count.upload = rate, &n.upload
	n.download.rate, n.count.download = rate, &n.download
	return n
}

// TestUploadRate lets streams send as they can, and control messages beside them, for a minute: all together keep to the rate, and nobody
// gets less than others.
func TestUploadRate(t *testing.T) {
	for _, rate := range []float64{MinUpload, 2.5e6, 1e9} {
		synctest.Test(t, func(t *testing.T) {
			const streams, lasts = 4, 60
			n := limitedNetwork(rate)
			end := time.Now().Add(lasts * time.Second)
			var sent [streams]float64
			var control atomic.Uint64
			var sending sync.WaitGroup
			for i := range streams {
				sending.Go(func() {
					var g uploadGate
					g.open(&n.upload, ProtocolExchange)
					for {
						k, err := g.take(256 << 10)
						if err != nil {
							t.Error(err)
						}
						if !time.Now().Before(end) {
							return
						}
						sent[i] += float64(k)
					}
				})
			}
			sending.Go(func() {
				for time.Now().Before(end) {
					began := time.Now()
					n.count.LogSentMessageStream(100, ProtocolLedger, "")
					if time.Since(began) > 0 {
						t.Error("a control message waited")
					}
					control.Add(100)
					time.Sleep(100 * time.Millisecond)
				}
			})
			sending.Wait()
			total := float64(control.Load())
			for _, s := range sent {
				total += s
				if want := (rate*lasts - float64(control.Load())) / streams; math.Abs(s-want) > want/20 {
					t.Errorf("rate %.0f: one stream sent %.0f bytes, want %.0f", rate, s, want)
				}
			}
			if want := rate * lasts; math.Abs(total-want) > want/50 {
				t.Errorf("rate %.0f: %.0f bytes were sent, want %.0f", rate, total, want)
			}
		})
	}
}

// TestUploadGateEnds: a deadline and a reset end the wait for a turn, and what was not sent is not counted.
func TestUploadGateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := limitedNetwork(MinUpload)
		var g uploadGate
		g.open(&n.upload, ProtocolState)
		for range 4 { // the burst, and who comes next
			if _, err := g.take(1 << 10); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		g.until(began.Add(time.Millisecond))
		if k, err := g.take(1 << 10); k != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Millisecond {
			t.Errorf("after %s: %d, %v; want the deadline's end after a millisecond", time.Since(began), k, err)
		}
		before := n.upload.mu.free
		g.until(time.Time{})
		result := make(chan error)
		go func() {
			_, err := g.take(1 << 10)
			result <- err
		}()
		synctest.Wait()
		g.shut()
		if err := <-result; !errors.Is(err, net.ErrClosed) {
			t.Errorf("a stream that was reset: %v", err)
		}
		if n.upload.mu.free != before {
			t.Error("what was not sent is counted")
		}
		var other uploadGate
		other.open(&n.upload, ProtocolLedger)
		if k, err := other.take(1 << 20); k != 1<<20 || err != nil {
			t.Errorf("control: %d, %v", k, err)
		}
	})
}

// TestUploadDebt: however much goes out that does not wait, at once or all the time, streams that do have their turns.
func TestUploadDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := limitedNetwork(MinUpload)
		var g uploadGate
		g.open(&n.upload, ProtocolExchange)
		control := func(bytes int64) { n.count.LogSentMessageStream(bytes, ProtocolHello, "") }
		began := time.Now()
		control(MaxHello)
		control(MaxHello)
		for range 5 {
			if _, err := g.take(1 << 10); err != nil {
				t.Fatal(err)
			}
		}
		if took, own := time.Since(began), n.upload.lasts(4<<10); took != uploadDebt+own {
			t.Errorf("after a burst 5 turns took %s, want %s", took, uploadDebt+own)
		}
		began = time.Now()
		for range 10 {
			control(MaxHello)
			if _, err := g.take(1 << 10); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 11*uploadDebt {
			t.Errorf("beside a flood 10 turns took %s", took)
		}
	})
}
