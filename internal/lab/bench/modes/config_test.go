package modes

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
)

func sampleConfig() Config {
	return Config{
		Modes: slices.Clone(Modes), Peers: 4, InnerSteps: 10, Rounds: 5, Seeds: 1, WarmSteps: 3,
		StepTime: time.Second,
	}
}

func TestValidate(t *testing.T) {
	if err := sampleConfig().Validate(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Config){
		"--peers 1: allowed: 2 to":        func(c *Config) { c.Peers = 1 },
		"--seeds 0: allowed: 1 to":        func(c *Config) { c.Seeds = -1 },
		"--rounds 0: allowed":             func(c *Config) { c.Rounds = 0 },
		"--inner-steps 0: allowed: 1":     func(c *Config) { c.InnerSteps, c.Modes = 0, []string{modeSync} },
		"--inner-steps 3: allowed: 4":     func(c *Config) { c.InnerSteps = 3 },
		"--warm-steps 0: allowed":         func(c *Config) { c.WarmSteps = 0 },
		"--step-time -1s: allowed":        func(c *Config) { c.StepTime = -time.Second },
		"--modes sync,sync: allowed: eac": func(c *Config) { c.Modes = []string{"sync", "sync"} },
		"--modes gossip: allowed: each":   func(c *Config) { c.Modes = []string{"gossip"} },
		"--codecs f32,f31: allowed: each": func(c *Config) { c.Codecs = []string{"f32", "f31"} },
		"--rate 20mbit: it is of links":   func(c *Config) { c.Rate = 20e6 },
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
		"sync", "delayed", "eager", "streaming", slowSyncRow, slowPacedRow,
		slowAsyncRow,
	}) {
		t.Errorf("all modes are rows %q", got)
	}
	rows := c.rows()
	if s := rows[len(rows)-3]; s.stepTime(c, 3) != slowness*time.Second || s.stepTime(c, 2) != time.Second ||
		s.span(c) != 200*time.Second {
		t.Errorf("%s: steps of %v and %v, %v in all", s.name, s.stepTime(c, 2), s.stepTime(c, 3), s.span(c))
	}
	if s := rows[0]; s.stepTime(c, 3) != time.Second || !slices.Contains(s.args(c, 7), "7") {
		t.Errorf("%s has a straggler, or another seed: %q", s.name, s.args(c, 7))
	}
	c.Modes = []string{"delayed"}
	if got := names(c); !slices.Equal(got, []string{"delayed"}) {
		t.Errorf("mode delayed is rows %q", got)
	}
	c.Codecs = []string{"f32", "int4"}
	if got := names(c); !slices.Equal(got, []string{"delayed"}) {
		t.Errorf("codecs without mode sync are rows %q", got)
	}
	c.Modes = []string{"sync"}
	if got := names(c); !slices.Equal(got, []string{"sync", "sync, int4"}) ||
		!slices.Contains(c.rows()[1].args(c, 1), "int4") {
		t.Errorf("codecs are rows %q", got)
	}
	if unbuilt("nonsense") == "" || unbuilt(modeSync) != "" {
		t.Error("a mode is taken for what it is not")
	}
}

// A warm start is trained once, found again, and its own when anything is another.
func TestWarmStart(t *testing.T) {
	c := sampleConfig()
	c.Dir, c.Data = t.TempDir(), []string{"."} // this package's source will do
	c.Model = builtin.Config{Width: 8, Heads: 1, Context: 8, Batch: 1, HeldOut: 4}
	corpus, err := builtin.OpenCorpus(t.Context(), builtin.CorpusConfig{Paths: c.Data})
	if err != nil {
		t.Fatal(err)
	}
	first, err := warmStart(t.Context(), c, corpus)
	if err != nil {
		t.Fatal(err)
	}
	again, err := warmStart(t.Context(), c, corpus)
	if err != nil || first.Cached || !again.Cached || again.Loss != first.Loss || again.Steps != 3 ||
		!slices.Equal(first.values, again.values) {
		t.Errorf("first %+v, again %+v, %v", first, again, err)
	}
	a, errA := trainReference(t.Context(), c, corpus, first, 1)
	b, errB := trainReference(t.Context(), c, corpus, again, 1)
	other, _ := trainReference(t.Context(), c, corpus, again, 2)
	if errA != nil || errB != nil || a.Curve[0].Loss != first.Loss || a.Loss != b.Loss || a.Loss == other.Loss ||
		len(a.Curve) != 6 || a.Curve[5].Tokens != 50*4*8 {
		t.Errorf("%+v, %v; %+v, %v; other seed %v", a, errA, b, errB, other.Loss)
	}
	c.WarmSteps++
	if w, err := warmStart(t.Context(), c, corpus); err != nil || w.Cached {
		t.Errorf("4 steps: %+v, %v", w, err)
	}
	if err := first.prepare(c.Dir + "/peer"); err != nil {
		t.Error(err)
	}
	tr, err := together(c, corpus)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.load(t.Context(), tr); err != nil {
		t.Fatal(err)
	}
	if err := tr.Save(t.Context(), c.Dir+"/loaded"); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(first.path(warmState))
	for _, name := range []string{"/peer/trainer.state", "/loaded"} {
		if got, err2 := os.ReadFile(c.Dir + name); err != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not the warm start's state of the optimizer: %v, %v", name, err, err2)
		}
	}
}
