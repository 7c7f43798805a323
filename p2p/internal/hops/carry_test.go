package hops

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

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
