package formation

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

func init() { testutil.OneCPU() }

// stranger is the ID of one of many strangers, above or below all others.
func stranger(first byte, i int) slot.PeerID {
	return slot.PeerID(binary.BigEndian.AppendUint16([]byte{first}, uint16(i)))
}

// alone is a peer that could found a run; change may change what it goes by.
func alone(t *testing.T, change func(*Config)) *Formation {
	return gather(t, 1, 0, func(_ *crowd, cfg *Config) {
		cfg.Given = presetSpec()
		change(cfg)
	}).Formation
}

// Strangers that search do not fill what is remembered for good: a lower ID comes before higher
// ones, and whoever is heard before whoever is silent.
func TestSearchingStrangersHideNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := alone(t, func(*Config) {})
		hello := p2p.Hello{Run: f.given.Name, Given: map[string]string{"layout": "of another peer"}}
		ahead := func() int {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.ahead()
		}
		for i := range maxKnown {
			f.receive(stranger(0xff, i), hello)
		}
		f.receive("\x00", hello)
		if n := ahead(); n != 1 {
			t.Errorf("%d peers are ahead, want 1: it is hidden by higher ones", n)
		}
		for i := range maxKnown {
			f.receive(stranger(0, i), hello)
		}
		time.Sleep(hearsSearching * f.cfg.Hello)
		f.receive("\x00\x02", hello)
		if n := ahead(); n != 1 {
			t.Errorf("%d peers are ahead, want the one that is heard", n)
		}
	})
}

// A peer waits for each lower one that searches. Two that wait for a third one, which never settles
// a spec, would else both found when the same time has passed. One that is told to found the run
// does not wait longer for many than for one: a stranger may have many IDs.
func TestEachLowerPeerIsWaitedFor(t *testing.T) {
	for lower, found := range map[int]bool{1: false, 3: false, 7: true} {
		synctest.Test(t, func(t *testing.T) {
			f := alone(t, func(c *Config) { c.Found = found })
			seeking := p2p.Hello{Run: f.given.Name, Given: map[string]string{"layout": "of a lower peer"}}
			began := time.Now()
			for f.spec() == nil && time.Since(began) < time.Hour {
				for i := range lower {
					f.receive(slot.PeerID([]byte{0, byte(i)}), seeking)
				}
				if err := f.decide(began, true); err != nil {
					t.Fatal(err)
				}
				time.Sleep(f.cfg.Hello)
			}
			want := searchingWait * f.cfg.Discovery
			if !found {
				want *= time.Duration(lower)
			}
			if took := time.Since(began) - f.cfg.Hello; took != want {
				t.Errorf("behind %d peers it settles after %s, want %s (told to found: %v)", lower, took, want, found)
			}
		})
	}
}
