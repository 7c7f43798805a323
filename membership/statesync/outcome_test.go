package statesync

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

var outcomeSizes = []int{5_000_001, 1, testFrame, 2*testFrame + 7, 3_000_000}

func TestFetchOutcome(t *testing.T) {
	for name, bad := range map[string]func(wire.Stream, []byte) (int, error){"honest": nil, "lying": lying, "dying": dying, "stalling": stalling} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t, testShape)
				blobs, data := putOutcome(t, s, outcomeSizes...)
				slow := ServerConfig{BytesPerSecond: 1 << 20}
				n := &peers{serve: map[slot.PeerID]func(wire.Stream){"a": honest(server(t, s, slow)), "b": honest(server(t, s, slow))}}
				if bad != nil {
					n.serve["b"] = faulty(server(t, s, slow), 200_000, bad)
				}
				n.serve["empty"] = honest(server(t, newStore(t, testShape), slow))
				got, report, err := NewClient(n, Config{}).FetchOutcome(t.Context(), blobs, testFrame, n.ids())
				if err != nil {
					t.Fatal(err)
				}
				n.wg.Wait()
				for i := range data {
					if !bytes.Equal(got[i], data[i]) {
						t.Fatalf("segment %d differs", i)
					}
				}
				if _, named := badOf(report, "b"); named != (bad != nil) || len(report.Sources) != 2 && bad == nil {
					t.Fatalf("report %+v", report)
				}
			})
		})
	}
}

func TestFetchOutcomeNobodyHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, testShape)
		blobs, _ := putOutcome(t, s, 100, 200)
		n := &peers{serve: map[slot.PeerID]func(wire.Stream){"a": honest(server(t, s, ServerConfig{}))}}
		c := NewClient(n, Config{})
		for _, b := range [][]Blob{{blobs[0], {slot.Root{1}, 5}}, {{blobs[0].Root, 101}}} {
			if _, _, err := c.FetchOutcome(t.Context(), b, testFrame, n.ids()); !errors.Is(err, ErrNoDonor) {
				t.Fatalf("error %v", err)
			}
		}
		if _, _, err := c.FetchOutcome(t.Context(), []Blob{{slot.Root{1}, 0}}, testFrame, n.ids()); err == nil {
			t.Fatal("an empty segment has any root")
		}
		if _, _, err := c.FetchOutcome(t.Context(), blobs, testFrame, nil); !errors.Is(err, ErrNoDonor) {
			t.Fatalf("error %v", err)
		}
		got, _, err := c.FetchOutcome(t.Context(), []Blob{{slot.FrameRoot(nil, testFrame, 0), 0}}, testFrame, nil)
		if err != nil || len(got) != 1 || len(got[0]) != 0 {
			t.Fatalf("an empty segment: %v", err)
		}
		n.wg.Wait()
	})
}
