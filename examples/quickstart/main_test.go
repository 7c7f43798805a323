package main

import (
	"strings"
	"sync"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
)

// TestTwoPeersEndEqual runs the example twice, as in two terminals, and compares what the two print
// at the end.
func TestTwoPeersEndEqual(t *testing.T) {
	started := make(chan []string, 1)
	cfg := p2pdiloco.Config{
		Spec:   p2pdiloco.Spec{Name: "quickstart-test", Rounds: 6, InnerSteps: steps, StartPeers: 2, Layout: layout},
		Preset: p2pdiloco.PresetLAN, Listen: []string{"/ip4/127.0.0.1/tcp/0"},
	}
	first, second := cfg, cfg
	first.OnEvent = func(e p2pdiloco.Event) {
		if addrs, ok := e.Fields["addrs"].([]string); ok {
			started <- addrs
		}
	}
	var out [2]strings.Builder
	var wg sync.WaitGroup
	take := func(i int, cfg p2pdiloco.Config) {
		if err := takePart(t.Context(), cfg, &out[i]); err != nil {
			t.Errorf("peer %d: %v", i+1, err)
		}
	}
	wg.Go(func() { take(0, first) })
	second.Bootstrap = <-started
	wg.Go(func() { take(1, second) })
	wg.Wait()
	_, a, _ := strings.Cut(out[0].String(), "the run has ended, ")
	_, b, _ := strings.Cut(out[1].String(), "the run has ended, ")
	if a == "" || a != b {
		t.Errorf("first peer:\n%s\nsecond peer:\n%s", &out[0], &out[1])
	}
}

func TestTrainLowersTheLoss(t *testing.T) {
	params := make([]float32, layout.Elements())
	beginning := func(int) p2pdiloco.Progress { return p2pdiloco.Progress{} }
	first := train(params, beginning)
	for range 20 {
		train(params, beginning)
	}
	if last := train(params, beginning); !(last < first/4) {
		t.Errorf("loss %v, then %v", first, last)
	}
}
