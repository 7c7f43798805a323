package formation

import (
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/p2pdiloco/p2pdiloco/internal/onecpu"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// A peer lets another one settle the spec that it does not hear itself, as long as others hear it.
// It says only of peers that it hears itself that it awaits them.
func TestOthersHearWhoSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := sim.NewMemory(t, 1, time.Millisecond)
		n, err := p2p.New(t.Context(), p2p.LAN(), p2p.WithHost(net.Hosts[0]))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = n.Close() })
		run := presetSpec()
		cfg := testConfig(n, run.Name)
		cfg.Given, cfg.Discovery = run, time.Hour
		f := New(cfg)
		const lower, higher, friend = slot.PeerID("\x00"), slot.PeerID("\xff\xff"), slot.PeerID("\xff")
		waits := func() bool {
			if err := f.decide(time.Now().Add(-cfg.Discovery), true); err != nil {
				t.Fatal(err)
			}
			return f.spec() == nil
		}
		seeking := p2p.Hello{Run: run.Name, Given: map[string]string{"layout": "of the friend"}}

		seeking.Awaits = lower
		f.receive(friend, seeking)
		if !waits() {
			t.Fatal("it does not wait for a lower peer that others hear")
		}
		if h := f.hello(); h.Awaits != "" {
			t.Errorf("it passes on that %q is awaited, whom it does not hear", h.Awaits)
		}
		time.Sleep(hearsSearching * cfg.Hello)
		seeking.Awaits, seeking.AwaitsFounder = higher, true
		f.receive(friend, seeking)
		if !waits() {
			t.Fatal("it does not wait for a founder that others hear")
		}
		time.Sleep(hearsSearching * cfg.Hello)
		seeking.AwaitsFounder = false
		f.receive(friend, seeking)
		if waits() {
			t.Error("it waits for a higher peer that does not found, or for what was said long ago")
		}
	})
}

// A peer waits for each lower one that searches. Two that wait for a third one, which never settles
// a spec, would else both found when the same time has passed. One that is told to found the run
// does not wait longer for many than for one: a stranger may have many IDs.
func TestEachLowerPeerIsWaitedFor(t *testing.T) {
	for lower, found := range map[int]bool{1: false, 3: false, 7: true} {
		synctest.Test(t, func(t *testing.T) {
			net := sim.NewMemory(t, 1, time.Millisecond)
			n, err := p2p.New(t.Context(), p2p.LAN(), p2p.WithHost(net.Hosts[0]))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = n.Close() })
			cfg := testConfig(n, "sim")
			cfg.Given, cfg.Found = presetSpec(), found
			f := New(cfg)
			seeking := p2p.Hello{Run: "sim", Given: map[string]string{"layout": "of a lower peer"}}
			began := time.Now()
			for f.spec() == nil && time.Since(began) < time.Hour {
				for i := range lower {
					f.receive(slot.PeerID([]byte{0, byte(i)}), seeking)
				}
				if err := f.decide(began, true); err != nil {
					t.Fatal(err)
				}
				time.Sleep(cfg.Hello)
			}
			want := searchingWait * cfg.Discovery
			if !found {
				want *= time.Duration(lower)
			}
			if took := time.Since(began) - cfg.Hello; took != want {
				t.Errorf("behind %d peers it settles after %s, want %s (told to found: %v)", lower, took, want, found)
			}
		})
	}
}
