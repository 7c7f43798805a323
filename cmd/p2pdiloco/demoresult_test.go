package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

func TestDDPBytes(t *testing.T) {
	for _, c := range []struct {
		peers         int
		params, steps uint64
		want          uint64
	}{{1, 1000, 10, 0}, {2, 1000, 10, 40_000}, {4, 1000, 10, 60_000}, {4, 139_680, 200, 167_616_000}} {
		if got := ddpBytes(c.peers, c.params, c.steps); got != c.want {
			t.Errorf("%d peers, %d parameters, %d steps: %d bytes, want %d", c.peers, c.params, c.steps, got, c.want)
		}
	}
}

func TestOK(t *testing.T) {
	low, high := 2.0, 3.0
	measured := func(first, last *float64) demoPeerResult {
		return demoPeerResult{Peer: eventlog.Peer{LossFirst: first, LossLast: last}}
	}
	fell := measured(&high, &low)
	for name, c := range map[string]struct {
		r    demoResult
		want bool
	}{
		"fell":   {demoResult{Identical: true, Peers: []demoPeerResult{fell, fell}}, true},
		"differ": {demoResult{Identical: false, Peers: []demoPeerResult{fell, fell}}, false},
		"rose": {
			demoResult{Identical: true, Peers: []demoPeerResult{fell, measured(&low, &high)}}, false,
		},
		"same":       {demoResult{Identical: true, Peers: []demoPeerResult{measured(&low, &low)}}, false},
		"unmeasured": {demoResult{Identical: true, Peers: []demoPeerResult{{}}}, false},
	} {
		if got := c.r.OK(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestIdenticalMeansAll: a peer that died, or that stands at another root or slot, makes a swarm
// not identical.
func TestIdenticalMeansAll(t *testing.T) {
	for name, spoil := range map[string]func(p *demoPeer){
		"none":         func(*demoPeer) {},
		"exit":         func(p *demoPeer) { p.code = 1 },
		"signal":       func(p *demoPeer) { p.code = -1 },
		"root":         func(p *demoPeer) { p.roots[2] = "other" },
		"behind":       func(p *demoPeer) { p.round = 1 },
		"never joined": func(p *demoPeer) { p.round, p.roots = 0, nil },
	} {
		peers := fakePeers(t, 3)
		for _, p := range peers {
			apply(p, 1, "one", 3)
			apply(p, 2, "two", 2)
		}
		spoil(peers[1])
		s := demoSwarm{cfg: demoConfig{Peers: 3, Spec: p2pdiloco.Spec{Rounds: 2, InnerSteps: 1}}, peers: peers}
		if got := s.result().Identical; got != (name == "none") {
			t.Errorf("%s: identical is %v", name, got)
		}
	}
}

func TestLossesUpToTheFirstGap(t *testing.T) {
	peers := fakePeers(t, 2)
	apply(peers[0], 0, "", 4)
	apply(peers[1], 1, "", 3)
	apply(peers[0], 3, "", 1)
	s := demoSwarm{cfg: demoConfig{Peers: 2, Spec: p2pdiloco.Spec{Rounds: 3}}, peers: peers}
	if got := s.losses(); len(got) != 2 || got[0] != 4 || got[1] != 3 {
		t.Errorf("got %v", got)
	}
}

func TestSummary(t *testing.T) {
	low, high := 2.0, 3.0
	r := demoResult{
		Identical: true, Params: 1000, DDPBytes: 60_000, LossCurve: "/tmp/curve.svg", Losses: []float64{3, 2},
		AloneLosses: []float64{3, 2.25},
		Peers: []demoPeerResult{{Peer: eventlog.Peer{
			PeerID: "12D3KooWabcdef", LossFirst: &high, LossLast: &low, BytesSent: 6000,
			StateRoot: strings.Repeat("a", 64),
		}}},
	}
	var out strings.Builder
	summarizeDemo(&out, demoConfig{Peers: 4, Spec: p2pdiloco.Spec{Rounds: 2, InnerSteps: 5}}, r)
	for _, want := range []string{
		"3.0000", "10.00%", "its loss fell", "60 kB", "/tmp/curve.svg", "same 10 steps",
		"1/4 of the swarm's tokens",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}

// Where peers do different numbers of steps, nothing is said to be after the same ones.
func TestComparisonOfUnequalSteps(t *testing.T) {
	r := demoResult{Losses: []float64{3, 2}, AloneLosses: []float64{3, 2.25}}
	for _, c := range []struct {
		mode, pace string
		same       bool
	}{
		{"sync", "", true},
		{"streaming", "", true},
		{"async", "steps", true},
		{"async", "", false},
		{"sync", "dylu", false},
		{"sync", "deadline", false},
	} {
		text := comparison(
			demoConfig{Peers: 4, Spec: p2pdiloco.Spec{Rounds: 2, InnerSteps: 5, Mode: c.mode, Pace: c.pace}},
			r,
		)
		if got := strings.Contains(text, "same"); got != c.same || !strings.Contains(text, "2.2500 after") {
			t.Errorf("mode %s, pace %q: %s", c.mode, c.pace, text)
		}
	}
}

func TestCurve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "curve.svg")
	for name, losses := range map[string][]float64{"both": {3, 2.5, 2.25}, "one value": {3}, "none": nil} {
		if err := drawCurve(path, 4, losses, []float64{3, 2.75, 2.5}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b, []byte(">swarm of 4 peers<")) || bytes.Count(b, []byte("<circle")) != 3+len(losses) {
			t.Errorf("%s: %s", name, b)
		}
	}
	if err := drawCurve(filepath.Join(t.TempDir(), "none", "x.svg"), 4, nil, nil); err == nil {
		t.Error("no error for a folder that does not exist")
	}
}
