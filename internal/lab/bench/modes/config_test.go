package modes

import (
	"bytes"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

func sampleConfig() Config {
	return Config{
		Place: bench.Place{Peers: 4}, Modes: slices.Clone(Modes), InnerSteps: 10, Rounds: 5, Seeds: 1, WarmSteps: 3,
		StepTime: time.Second, Model: settings.Model{Config: builtin.Config{Context: 8, Batch: 1}},
	}
}

func TestValidate(t *testing.T) {
	if err := sampleConfig().Validate(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Config){
		"--peers 1: allowed: 2 to":                   func(c *Config) { c.Peers = 1 },
		"--seeds 0: allowed: 1 to":                   func(c *Config) { c.Seeds = 0 },
		"--rounds 0: allowed":                        func(c *Config) { c.Rounds = 0 },
		"--inner-steps 0: allowed: 1":                func(c *Config) { c.InnerSteps, c.Modes = 0, []string{"sync"} },
		"--inner-steps 3: allowed: 4":                func(c *Config) { c.InnerSteps = 3 },
		"--warm-steps 0: allowed":                    func(c *Config) { c.WarmSteps = 0 },
		"--step-time 0s: allowed":                    func(c *Config) { c.StepTime = 0 },
		"--modes gossip: allowed: sync":              func(c *Config) { c.Modes = []string{"gossip"} },
		`--codecs f32,f31: codec "f31" is not known`: func(c *Config) { c.Codecs = []string{"f32", "f31"} },
		"--rtt 3s: allowed: 0 to 2s":                 func(c *Config) { c.RTT = 3 * time.Second },
		"--model width=5,context=8":                  func(c *Config) { c.Model.Width = 5 },
	} {
		c := sampleConfig()
		spoil(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestRows(t *testing.T) {
	names := func(c Config) (list []string) {
		for _, r := range c.rows() {
			list = append(list, r.name)
		}
		return list
	}
	c := sampleConfig()
	if got := names(c); !slices.Equal(got, []string{
		"sync", "delayed", "eager", "streaming", "sync,slow", "sync,dylu,slow", "async,slow",
	}) {
		t.Errorf("all modes are rows %q", got)
	}
	rows := c.rows()
	if s := rows[len(rows)-3]; s.stepTime(c, 3) != slowness*time.Second || s.stepTime(c, 2) != time.Second ||
		s.limit(c) != 920*time.Second {
		t.Errorf("%s: steps of %v and %v, at most %v", s.name, s.stepTime(c, 2), s.stepTime(c, 3), s.limit(c))
	}
	if s := rows[0]; s.stepTime(c, 3) != time.Second || !slices.Contains(s.args(c, 7, 3), "7") {
		t.Errorf("%s has a straggler, or another seed: %q", s.name, s.args(c, 7, 3))
	}
	c.Codecs = []string{"f32", "int4"}
	c.Modes = []string{"delayed"}
	if got := names(c); !slices.Equal(got, []string{"delayed"}) {
		t.Errorf("codecs without mode sync are rows %q", got)
	}
	c.Modes = []string{"sync"}
	if got := names(c); !slices.Equal(got, []string{"sync", "sync,int4"}) ||
		!slices.Contains(c.rows()[1].args(c, 1, 0), "int4") {
		t.Errorf("codecs are rows %q", got)
	}
	c.Codecs = []string{"sign+topk:512:4", "topk"}
	if a, b := c.rows()[1].args(c, 1, 0), c.rows()[2].args(c, 1, 0); !slices.Contains(a, "topk:512:4") ||
		!slices.Contains(a, "nesterov") || !slices.Contains(b, "topk") || slices.Contains(b, "nesterov") {
		t.Errorf("rows are %q and %q", a, b)
	}
}

// TestGoals: each row has a goal, in a bench of the size that the goals are for.
func TestGoals(t *testing.T) {
	c := sampleConfig()
	c.Codecs = []string{"int4", "sign"}
	for _, r := range c.rows() {
		judged := bench.Judge(c.name(r.name), "loss-x-dp", 0) + bench.Judge(c.name(r.name), "loss-x-sync", 0) +
			bench.Judge(c.name(r.name), "sec-to-loss-x-sync", 0)
		if judged == "" && r.name != slowSyncRow {
			t.Errorf("%s has no goal", c.name(r.name))
		}
		c.Rate = 1
		late := r.name == "delayed" || r.name == "eager" || r.name == "streaming"
		if stall := bench.Judge(c.name(r.name), "stall-%", 3); (stall != "") != late {
			t.Errorf("%s behind a link stalls 3%%: %q", c.name(r.name), stall)
		}
		c.Rate = 0
	}
}

// A warm start begins all rows and seeds alike: the reference has its model and its optimizer.
func TestWarmStart(t *testing.T) {
	c := sampleConfig()
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
	if err := w.prepare(c.Dir + "/peer"); err != nil {
		t.Error(err)
	}
	want, err := os.ReadFile(w.state)
	if got, err2 := os.ReadFile(c.Dir + "/peer/trainer.state"); err != nil || err2 != nil || !bytes.Equal(got, want) {
		t.Errorf("a peer has another state of the optimizer: %v, %v", err, err2)
	}
	if same := loss(1, 0); same != w.loss {
		t.Errorf("before the first round a loss of %v; the warm start's is %v", same, w.loss)
	}
}

// TestResult: what peers did becomes figures, and those that hold different models are an error.
func TestResult(t *testing.T) {
	c := sampleConfig()
	c.Peers, c.InnerSteps, c.StepTime = 2, 40, 40*time.Millisecond
	of := func(training float64, root string) *peer {
		p := &peer{
			measured: []eventlog.Line{told(1, 0, 3, 0), told(6, 1, 2.5, 10)},
			sent:     []sample{{second(after(1)), 100}, {second(after(1.1)), 200}, {second(after(6)), 600}},
		}
		p.report.BytesSent, p.report.Training, p.report.Stall, p.report.Tokens = 1100, training, 1, 10*c.batch()
		p.report.StateRoot = root
		return p
	}
	r := &bench.Report{Out: io.Discard}
	result := func(name, root string) error {
		_, err := c.add(r, row{name: name}, 0, []*peer{of(1, "a"), of(2, root)})
		return err
	}
	err := result("sync", "a")
	want := map[string]float64{"loss": 2.5, "sec/op": 5, "sent-B": 1000, "stall-%": 40, "step-x-pace": 5, "peak-B": 100}
	for unit, x := range want {
		if got := r.Samples(c.name("sync"), unit); err != nil || len(got) != 1 || math.Abs(got[0]-x) > 1e-3 {
			t.Errorf("%s: %v, want %v; %v", unit, got, x, err)
		}
	}
	err = result("sync,slow", "a")
	if slow := r.Samples(c.name("sync,slow"), "step-x-pace"); err != nil || slow[0] != 2.5 {
		t.Errorf("the straggler is taken for cores that are short: %v, %v", slow, err)
	}
	if result("sync", "b") == nil {
		t.Error("different models are a result")
	}
}
