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
			if err := f.decide(time.Now(), true); err != nil {
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
