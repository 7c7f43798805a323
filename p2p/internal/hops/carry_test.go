package hops

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"

	"github.com/p2pdiloco/p2pdiloco/internal/wire/wiretest"
)

// A forwarder gives up a stream whose target takes nothing, or on which nothing comes: it would
// hold its place for ever.
func TestCarryGivesUp(t *testing.T) {
	for what, busy := range map[string]bool{"the target takes nothing": true, "nothing comes": false} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				origin, in := wiretest.Pipe(1 << 10)
				out, target := wiretest.Pipe(1 << 10)
				defer target.Reset() //nolint:errcheck // the test is over
				if busy {
					go func() { _, _ = io.Copy(origin, zeros{}) }()
				}
				late := time.AfterFunc(10*carryIdle, func() { _, _ = in.Reset(), out.Reset() })
				defer late.Stop()
				began := time.Now()
				err := carry(in, out)
				if took := time.Since(began); err == nil || took < carryIdle || took > 2*carryIdle {
					t.Errorf("it ended after %v: %v", took, err)
				}
				_ = origin.Reset()
			})
		})
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// A direction that was silent for long ends well: its last write was carried by a deadline that has
// passed since. Without a new one the end is not passed on, and the stream that lives in the other
// direction is reset.
func TestCarryPassesOnALateEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		origin, in := wiretest.Pipe(1 << 10)
		out, target := wiretest.Pipe(1 << 10)
		carried := make(chan error, 1)
		go func() { carried <- carry(in, out) }()
		if _, err := origin.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		for range 4 { // the target says that it is alive
			time.Sleep(carryIdle / 2)
			if _, err := target.Write([]byte("alive")); err != nil {
				t.Fatal(err)
			}
		}
		if err := origin.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(target); err != nil || string(b) != "hello" {
			t.Errorf("the target got %q: %v", b, err)
		}
		_ = target.CloseWrite()
		if b, err := io.ReadAll(origin); err != nil || len(b) != 4*len("alive") {
			t.Errorf("the origin got %d bytes: %v", len(b), err)
		}
		if err := <-carried; err != nil {
			t.Error(err)
		}
	})
}

// Members that have as much forwarded as they can leave the others a share each: four of them, each
// with the 64 streams that a peer may have, took all places.
func TestEachOriginHasAShare(t *testing.T) {
	l := newLoad()
	enter := func(origin peer.ID) (streams int) {
		for i := range 64 {
			if l.enter(origin, peer.ID(fmt.Sprint("target", i/maxPair))) {
				streams++
			}
		}
		return streams
	}
	for i := range 8 {
		enter(peer.ID(fmt.Sprint("hostile", i)))
	}
	for _, origin := range []peer.ID{"ada", "bob"} {
		if n := enter(origin); n < 4 {
			t.Errorf("%s gets %d streams", origin, n)
		}
	}
	l = newLoad()
	if n := enter("ada"); n != 64 {
		t.Errorf("a single origin gets %d streams", n)
	}
	for i := range 64 {
		l.leave("ada", peer.ID(fmt.Sprint("target", i/maxPair)))
	}
	if len(l.mu.of)+len(l.mu.by)+l.mu.all != 0 {
		t.Errorf("streams that have ended count: %v, %v", l.mu.of, l.mu.by)
	}
}
