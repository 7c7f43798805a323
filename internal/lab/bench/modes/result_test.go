package modes

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func trial(seed uint64, loss float64, peers ...PeerRun) Trial {
	return Trial{
		Seed: seed, Loss: loss, Seconds: 10 * loss, Identical: true, Peers: peers,
		Curve: []Point{{Loss: 3}, {1, loss, 5 * loss, 4}, {2, loss, 10 * loss, 8}},
	}
}

// sampleResult has two seeds of everything, and one run that failed.
func sampleResult() *Result {
	fast, slow := PeerRun{1000, 400, 50, 1, 1}, PeerRun{3000, 600, 50, 3, 1}
	light := PeerRun{500, 125, 50, 4, 0}
	return &Result{
		Peers: 4, InnerSteps: 50, Rounds: 1, Seeds: 2, Parameters: 7, Tokens: 200 * 4, StepSeconds: .02, Cores: 2,
		Links: &Links{20e6, .005}, Warm: &warm{Steps: 9, Loss: 3},
		Rows: []Row{
			{Name: referenceRow, Runs: []Trial{trial(1, 2), trial(2, 2.2)}},
			{Name: modeSync, Mode: modeSync, Runs: []Trial{trial(1, 2.02, fast, slow), trial(2, 2.2, fast, slow)}},
			{
				Name: modeDelayed, Mode: modeDelayed,
				Runs: []Trial{trial(1, 2.0402, light), {Seed: 2, Error: "peer 1 ended"}},
			},
			{Name: modeStreaming, Mode: modeStreaming, NotBuilt: true},
			{Name: slowSyncRow, Mode: modeSync, Runs: []Trial{trial(1, 2), trial(2, 2)}},
			{Name: slowAsyncRow, Mode: modeAsync, Runs: []Trial{
				{Seed: 1, Loss: 2.5, Curve: []Point{{Loss: 3}, {1, 2, 2, 4}, {2, 2, 5, 8}}},
				{Seed: 2, Loss: 2.5, Curve: []Point{{Loss: 3}, {1, 2.5, 2, 4}, {2, 2.5, 5, 8}}},
			}},
		},
	}
}

func near(got *float64, want float64) bool { return got != nil && math.Abs(*got-want) < 1e-9 }

func TestSumUp(t *testing.T) {
	r := sampleResult()
	r.sumUp()
	s, d := r.row(modeSync), r.row(modeDelayed)
	if !near(s.Loss, 2.11) || !near(s.Spread, .18/math.Sqrt2) || !near(s.OverReference, .005) || s.OverSync != nil {
		t.Errorf("sync: loss %v, spread %v, over the reference %v", *s.Loss, *s.Spread, *s.OverReference)
	}
	if !near(s.Sent, 2000) || !near(s.Stall, 2./6) || !near(s.Peak, 1) {
		t.Errorf("sync: sent %v, stall %v, peak %v", *s.Sent, *s.Stall, *s.Peak)
	}
	if !near(d.Loss, 2.0402) || d.Spread != nil || !near(d.OverSync, .01) || !near(d.OverReference, .0201) ||
		!near(d.Peak, .25) || !near(d.Stall, 0) {
		t.Errorf("delayed, of which one seed failed: %+v", d)
	}
	if x := r.row(modeStreaming); x.Loss != nil || x.Stall != nil || x.OverSync != nil || x.Peak != nil {
		t.Errorf("what was not built has figures: %+v", x)
	}
	// Seed 1: both come to 2, at 5 and 20 s. Seed 2: async ends at 2.5, where sync is half-way from
	// 10 to 20 s.
	if len(r.Races) != 1 || r.Races[0].Row != slowAsyncRow || !near(&r.Races[0].Ratio, (5./20+5./15)/2) ||
		r.Races[0].Targets[1] != 2.5 {
		t.Errorf("races %+v", r.Races)
	}
	if r.OK() {
		t.Error("a run that failed is fine")
	}
}

func TestGoals(t *testing.T) {
	r := sampleResult()
	r.sumUp()
	got := map[string]bool{}
	for _, g := range r.Goals {
		got[g.What] = g.Met
	}
	want := map[string]bool{
		"sync: loss over data-parallel, 4 peers, up to 50 inner steps": true, "delayed: loss over sync": false,
		"delayed: stall share":                                  true,
		"async, one slow: time to the same loss against sync's": true,
	}
	for what, met := range want {
		if is, there := got[what]; !there || is != met {
			t.Errorf("%s: %v, %v", what, is, there)
		}
	}
	if len(got) != len(want) {
		t.Errorf("goals %v: what was not measured has none", got)
	}
	r.Peers, r.Links = 5, nil
	for _, g := range r.goals() {
		if strings.Contains(g.What, "data-parallel") || strings.Contains(g.What, "stall") {
			t.Errorf("%s: there is no such goal for 5 peers on loopback", g.What)
		}
	}
}

func TestCoresShort(t *testing.T) {
	r := sampleResult()
	r.sumUp() // 50 tokens are 12.5 steps of .02 s
	if r.Load == nil || math.Abs(r.Load.Ratio-16) > 1e-9 || r.Load.Row != modeDelayed {
		t.Errorf("got %+v", r.Load)
	}
	r.StepSeconds = .32
	if short := r.coresShort(); short != nil {
		t.Errorf("the cores kept up, and there is %+v", short)
	}
}

func TestTable(t *testing.T) {
	r := sampleResult()
	r.sumUp()
	var out strings.Builder
	r.print(&out)
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"4 peers, 1 rounds of 50 inner steps, 2 seeds", "link 20mbit and 5 ms each way", "did NOT keep up",
		"inner steps took 16.00 times",
		"sync 2.1100 0.1273 +0.50% - 2.0 kB 1.00 33.3% 21 s delayed 2.0402 - +2.01%",
		"streaming not built sync, one slow", "delayed, seed 2 FAILED: peer 1 ended",
		`"async, one slow" takes 0.29 of the time of "sync, one slow"`, "0.80% 1.00% NOT met", "fewer than 3 seeds",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}

// The document is for scripts: its names stay.
func TestDocument(t *testing.T) {
	r := sampleResult()
	r.sumUp()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"step_seconds":0.02`, `"over_reference":0.00`, `"not_built":true`,
		`"curve":[{"round":0,"loss":3,"seconds":0,"tokens":0}`, `"straggler":[{"row":"async, one slow","targets":`,
		`"goals":[{"what":`, `"met":true`, `"error":"peer 1 ended"`, `"warm":{"steps":9`, `"bits_per_second":20000000`,
		`"peak":null`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is missing:\n%s", want, b)
		}
	}
}
