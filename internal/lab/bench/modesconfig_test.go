package bench

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
)

func modesConfig() ModesConfig {
	return ModesConfig{
		Place: Place{Peers: 4}, Rows: slices.Clone(UsualRows), InnerSteps: 10, Rounds: 5, Seeds: 1, WarmSteps: 3,
		StepTime: time.Second, Model: peer.Model{Config: builtin.Config{Context: 8, Batch: 1}},
	}
}

func TestValidateModes(t *testing.T) {
	if err := modesConfig().Validate(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*ModesConfig){
		"--peers 1: allowed: 2 to":                 func(c *ModesConfig) { c.Peers = 1 },
		"--seeds 0: allowed: 1 to":                 func(c *ModesConfig) { c.Seeds = 0 },
		"--rounds 0: allowed":                      func(c *ModesConfig) { c.Rounds = 0 },
		"--inner-steps 0: allowed: 1":              func(c *ModesConfig) { c.InnerSteps, c.Rows = 0, []string{"sync"} },
		"--inner-steps 3: allowed: 4":              func(c *ModesConfig) { c.InnerSteps = 3 },
		"--warm-steps 0: allowed":                  func(c *ModesConfig) { c.WarmSteps = 0 },
		"--step-time 0s: allowed":                  func(c *ModesConfig) { c.StepTime = 0 },
		"name one at least":                        func(c *ModesConfig) { c.Rows = nil },
		`gossip: "gossip" is no mode: sync`:        func(c *ModesConfig) { c.Rows = []string{"gossip"} },
		`sync.f31: codec "f31" is not known`:       func(c *ModesConfig) { c.Rows = []string{"sync", "sync.f31"} },
		`sync.int4+f31: codec "f31" is not known`:  func(c *ModesConfig) { c.Rows = []string{"sync.int4+f31"} },
		"none of muon, dylu":                       func(c *ModesConfig) { c.Rows = []string{"sync.muno"} },
		`"flip:none": how many`:                    func(c *ModesConfig) { c.Rows = []string{"sync.flip:none"} },
		"fewer than a third of 4 peers may be bad": func(c *ModesConfig) { c.Rows = []string{"sync.flip:2"} },
		"sync would train for 16m40s: its limit":   func(c *ModesConfig) { c.Rounds = 100 },
		"--rtt 3s: allowed: 0 to 2s":               func(c *ModesConfig) { c.RTT = 3 * time.Second },
		"--model width=5,context=8":                func(c *ModesConfig) { c.Model.Width = 5 },
	} {
		c := modesConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestRows(t *testing.T) {
	names := func(c ModesConfig) (list []string) {
		for _, r := range c.rows() {
			list = append(list, r.name)
		}
		return list
	}
	c := modesConfig()
	rows := c.rows()
	if got := names(c); !slices.Equal(got, append([]string{referenceRow}, UsualRows...)) {
		t.Errorf("all modes are rows %q", got)
	}
	if s := rows[len(rows)-3]; s.stepTime(c, 3) != slowness*time.Second || s.stepTime(c, 2) != time.Second ||
		s.training(c) != 200*time.Second {
		t.Errorf("%s: steps of %v and %v, %v in all", s.name, s.stepTime(c, 2), s.stepTime(c, 3), s.training(c))
	}
	if s := rows[1]; s.stepTime(c, 3) != time.Second || s.rounds(c) != 5 || rows[len(rows)-1].rounds(c) != 8 {
		t.Errorf("%s has a straggler, or other rounds: %v", s.name, s)
	}
	c.Rows = []string{"sync", "sync.muon"}
	if got := names(c); !slices.Equal(got, []string{referenceRow, muonReferenceRow, "sync", "sync.muon"}) {
		t.Errorf("with Muon rows are %q", got)
	}
}

// TestArguments: each word of a row's name is in the flags of its peers, and only there.
func TestArguments(t *testing.T) {
	c := modesConfig()
	c.Data = []string{"a", "b"}
	of := func(name string, peer int) string {
		r, err := parseRow(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(r.args(c, 7, peer), " ")
	}
	plain := of("sync", 0)
	for _, want := range []string{
		"--mode sync", "--seed 7", "--codec f32", "--aggregator mean", "--outer nesterov", "--momentum 0.6",
		"--min-peers 4", "--data a --data b", "--held-out 512",
	} {
		if !strings.Contains(plain, want) {
			t.Errorf("%q is not in %q", want, plain)
		}
	}
	for name, want := range map[string]string{
		"delayed": "--momentum 0", "streaming": "--fragments 4", "sync.int4": "--codec int4",
		"sync.sign+topk:512:4": "--codec sign --aggregator mean --min-peers 4 --outer nesterov --outer-lr 0.7 " +
			"--momentum 0.6 --outcome-codec topk:512:4",
		"sync.topk": "--codec topk --aggregator mean --min-peers 4 --data", "sync.clip": "mean --clip on",
		"sync.muon.median": "optimizer=muon --codec f32 --aggregator median", "sync.dylu": "--pace dylu",
		"sync.trimmed_mean.flip:1": "--aggregator trimmed_mean",
	} {
		if got := of(name, 2); !strings.Contains(got, want) || strings.Contains(plain+" ", want+" ") {
			t.Errorf("%s: %q in %q, and not in %q", name, want, got, plain)
		}
	}
	if got := of("sync", 1); !strings.Contains(got, "--held-out 1 ") {
		t.Errorf("the second peer measures as much: %q", got)
	}
	if r, _ := parseRow("sync.median.flip:2.int4"); r.bad != 2 || r.clean() != "sync.median.int4" {
		t.Errorf("%d bad peers; without them it is %s", r.bad, r.clean())
	}
	if got := of("async", 0); strings.Contains(got, "min-peers") || strings.Contains(got, "outer") {
		t.Errorf("async waits: %q", got)
	}
}

// TestModesGoals: each row has a goal, in a bench of the size that the goals are for.
func TestModesGoals(t *testing.T) {
	c := modesConfig()
	c.Rows = append(c.Rows, "sync.int4", "sync.sign", "sync.topk", "sync.topk:128:2")
	for _, r := range c.rows()[1:] {
		judged := Judge(c.figure(r.name), "loss-x-dp", 0) + Judge(c.figure(r.name), "loss-x-sync", 0) +
			Judge(c.figure(r.name), "sec-to-loss-x-sync", 0)
		if judged == "" && r.name != slowSyncRow {
			t.Errorf("%s has no goal", c.figure(r.name))
		}
		c.Rate = 1
		late := r.name == "delayed" || r.name == "eager" || r.name == "streaming"
		if stall := Judge(c.figure(r.name), "stall-%", 3); (stall != "") != late {
			t.Errorf("%s behind a link stalls 3%%: %q", c.figure(r.name), stall)
		}
		c.Rate = 0
	}
}

// A warm start begins all rows and seeds alike: the reference has its model and its optimizer.
func TestWarmStart(t *testing.T) {
	c := modesConfig()
	c.Data = []string{"."} // this package's source will do
	c.Model.Width, c.Model.Heads, c.Model.HeldOut = 8, 1, 4
	c.Dir = t.TempDir()
	w, err := warmStart(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	loss := func(seed, rounds uint64) float64 {
		_, loss, err := w.train(t.Context(), c, seed, rounds, c.InnerSteps)
		if err != nil {
			t.Fatal(err)
		}
		return loss
	}
	if a, b, other := loss(1, 5), loss(1, 5), loss(2, 5); a != b || a == other || a == w.loss ||
		c.tokens() != 5*10*4*8 {
		t.Errorf("from %v to %v and %v; other seed %v", w.loss, a, b, other)
	}
	if err := errors.Join(w.prepare(c.Dir+"/peer", w.optimizer), w.prepare(c.Dir+"/other", builtin.Muon)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(c.Dir + "/other"); err == nil {
		t.Error("a peer with another optimizer has a state")
	}
	want, err := os.ReadFile(w.state)
	if got, err2 := os.ReadFile(c.Dir + "/peer/trainer.state"); err != nil || err2 != nil || !bytes.Equal(got, want) {
		t.Errorf("a peer has another state of the optimizer: %v, %v", err, err2)
	}
	other := c
	other.Model.Optimizer = builtin.Muon
	if _, loss, err := w.train(t.Context(), other, 1, 0, 1); err != nil || loss != w.loss {
		t.Errorf("another optimizer begins with a loss of %v, %v", loss, err)
	}
	if same := loss(1, 0); same != w.loss {
		t.Errorf("before the first round a loss of %v; the warm start's is %v", same, w.loss)
	}
}
