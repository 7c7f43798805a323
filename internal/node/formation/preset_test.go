package formation

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// testConfig is the configuration of a peer that knows only the name of a run.
func testConfig(net *p2p.Network, name string) Config {
	return Config{
		Network: net, Given: spec.Spec{Name: name}, MaxAdopted: 1 << 30, Places: p2p.NewPlaces(name),
		Presets: []string{"lan", "wan"}, Default: "wan", Discovery: 20 * time.Second, Hello: 2 * time.Second,
		Glance: glance,
		Logger: slog.New(slog.DiscardHandler),
	}
}

func presetSpec() spec.Spec {
	s := spec.Spec{Name: "sim", Rounds: 10, StartPeers: 1}
	s.Layout = trainer.Layout{{Name: "w", Shape: []uint64{4}}}
	return s.Settled()
}

// A peer that has the run's spec from before, and no preset, takes the one that the run's peers
// announce. It waits for that no longer than the discovery window.
func TestAPresetThatIsNotRememberedIsReceived(t *testing.T) {
	for announced, want := range map[string]string{"lan": "lan", "": "wan", "moon": "wan"} {
		synctest.Test(t, func(t *testing.T) {
			run := presetSpec()
			f := New(testConfig(nil, run.Name))
			f.Adopt(run)
			if h := f.hello(); h.Timing != "" || len(h.Spec) == 0 || f.isSettled() {
				t.Errorf("before, it announces %q; over: %v", h.Timing, f.isSettled())
			}
			go func() {
				time.Sleep(time.Second)
				for range 2 {
					f.receive("peer", p2p.Hello{Run: run.Name, Spec: run.Append(nil), Timing: announced})
				}
			}()
			began := time.Now()
			if err := f.AwaitPreset(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); (took == time.Second) != (announced == want) || took > f.cfg.Discovery {
				t.Errorf("with %q it waited %s", announced, took)
			}
			if f.Preset() != want || f.hello().Timing != want || !f.isSettled() {
				t.Errorf("with %q it takes %q and announces %q; over: %v", announced, f.Preset(), f.hello().Timing,
					f.isSettled())
			}
		})
	}
}
