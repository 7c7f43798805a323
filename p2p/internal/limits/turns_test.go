package limits

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

const minRate = 16_000

// TestRate lets streams send as they can, and control messages beside them, for 20 s: all
// together keep to the rate, and nobody gets less than others.
func TestRate(t *testing.T) {
	for _, rate := range []float64{minRate, 2.5e6, 1e9} {
		synctest.Test(t, func(t *testing.T) {
			const streams, lasts = 4, 20
			bucket := NewBucket(int64(rate))
			end := time.Now().Add(lasts * time.Second)
			var sent [streams]float64
			var control atomic.Uint64
			var sending sync.WaitGroup
			for i := range streams {
				sending.Go(func() {
					g := NewWriteTurns(bucket)
					for {
						k, err := g.Take(256 << 10)
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
					bucket.Passed(100)
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

// TestWriteTurnsEnd: a deadline and a reset end the wait for a turn, and what was not sent is not
// counted.
func TestWriteTurnsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := NewBucket(minRate)
		g := NewWriteTurns(bucket)
		for range 4 { // the burst, and who comes next
			if _, err := g.Take(1 << 10); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		g.Until(began.Add(time.Millisecond))
		if k, err := g.Take(1 << 10); k != 0 || !errors.Is(err, os.ErrDeadlineExceeded) ||
			time.Since(began) != time.Millisecond {
			t.Errorf("after %s: %d, %v; want the deadline's end after a millisecond", time.Since(began), k, err)
		}
		before := bucket.mu.free
		g.Until(time.Time{})
		result := make(chan error)
		go func() {
			_, err := g.Take(1 << 10)
			result <- err
		}()
		synctest.Wait()
		g.End()
		if err := <-result; !errors.Is(err, net.ErrClosed) {
			t.Errorf("a stream that was reset: %v", err)
		}
		if bucket.mu.free != before {
			t.Error("what was not sent is counted")
		}
		other := NewWriteTurns(nil)
		if k, err := other.Take(1 << 20); k != 1<<20 || err != nil {
			t.Errorf("control: %d, %v", k, err)
		}
	})
}

// TestDebt: however much goes out that does not wait, at once or all the time, streams that
// do have their turns.
func TestDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := NewBucket(minRate)
		g := NewWriteTurns(bucket)
		const hello = 4 << 20
		began := time.Now()
		bucket.Passed(hello)
		bucket.Passed(hello)
		for range 5 {
			if _, err := g.Take(1 << 10); err != nil {
				t.Fatal(err)
			}
		}
		if took, own := time.Since(began), bucket.lasts(4<<10); took != maxDebt+own {
			t.Errorf("after a burst 5 turns took %s, want %s", took, maxDebt+own)
		}
		began = time.Now()
		for range 10 {
			bucket.Passed(hello)
			if _, err := g.Take(1 << 10); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 11*maxDebt {
			t.Errorf("beside a flood 10 turns took %s", took)
		}
	})
}

// TestReadTurnsEnd: a deadline and a reset end the wait for a turn to read. Nothing is lost by
// it.
func TestReadTurnsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewReadTurns(NewBucket(minRate))
		read := func() error {
			k, err := g.Take(1 << 10)
			if err == nil {
				g.Came(k)
			}
			return err
		}
		for range 4 { // the burst, and who comes next
			if err := read(); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		g.Until(began.Add(time.Millisecond))
		if err := read(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Millisecond {
			t.Errorf("after %s: %v; want the deadline's end after a millisecond", time.Since(began), err)
		}
		g.Until(time.Time{})
		result := make(chan error)
		go func() { result <- read() }()
		synctest.Wait()
		g.End()
		if err := <-result; !errors.Is(err, net.ErrClosed) {
			t.Errorf("a stream that was reset: %v", err)
		}
		other := NewReadTurns(nil)
		if k, err := other.Take(1 << 20); k != 1<<20 || err != nil {
			t.Errorf("control: %d, %v", k, err)
		}
	})
}
