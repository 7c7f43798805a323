package nodetest

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
)

const unsoundElement = 4321

// unsound gives a bowl's parameters a value that is none.
func unsound(value float64) func(dst []float32) error {
	return func(dst []float32) error {
		dst[unsoundElement] = float32(value)
		return nil
	}
}

// No run is founded from a model with a NaN or an infinity in it, wherever it comes from.
func TestNoRunIsFoundedFromAnUnsoundModel(t *testing.T) {
	Once(t, 3, 1, func(s *Swarm) {
		p := s.Peers[0]
		p.Config = func(c *p2pdiloco.Config) { c.Init = unsound(math.Inf(-1)) }
		s.Start(p)
		err := s.Outcome(p, time.After(time.Minute))
		if err == nil || !strings.Contains(err.Error(), `tensor "x" has -Inf in element 4321: no run is founded`) {
			t.Errorf("a model of the program's own: %v", err)
		}
	})
	values := make([]float32, BowlElements)
	if err := unsound(math.NaN())(values); err != nil {
		t.Fatal(err)
	}
	path := modelFile(t, values)
	spec := p2pdiloco.Spec{Name: "r", Layout: bowlLayout()}
	_, err := p2pdiloco.Join(t.Context(), p2pdiloco.Config{Spec: spec, InitFile: path})
	if err == nil || !strings.Contains(err.Error(), path+`: tensor "x" has NaN in element 4321: no run is founded`) {
		t.Errorf("a file: %v", err)
	}
}

// A run that an older release founded from such a model is named as the fault to all who train it,
// also to one whose own model is sound, and its model is written only if that is asked for.
func TestAnUnsoundRunIsNamed(t *testing.T) {
	Run(t, Spec(3, 1), 2, func(s *Swarm) {
		founder, joiner := s.Peers[0], s.Peers[1]
		founder.Config = func(c *p2pdiloco.Config) {
			c.Init, c.Trainer = unsound(math.NaN()), nil
			c.Spec.Layout = bowlLayout()
		}
		founder.Hooks = func(h *edge.Hooks) { h.Unsound = true }
		s.Start(founder)
		s.Until(time.Minute, "there is a run", func() bool { return len(founder.Events("run.founded")) > 0 })
		s.Start(joiner)
		err := s.Outcome(joiner, time.After(time.Minute))
		if err == nil ||
			!strings.Contains(err.Error(), "the run's model is bad, and was so before this peer trained it") ||
			!strings.Contains(err.Error(), `tensor "x" has NaN in element 4321`) {
			t.Errorf("a peer with a sound model: %v", err)
		}
		s.Stop(founder)
		out := filepath.Join(t.TempDir(), "m.safetensors")
		cfg := p2pdiloco.ExportConfig{DataDir: founder.Dir, Out: out}
		_, err = p2pdiloco.Export(t.Context(), cfg)
		if _, left := os.Stat(out); err == nil || left == nil || !strings.Contains(err.Error(), `tensor "x" has NaN`) {
			t.Errorf("its export: %v", err)
		}
		cfg.Force = true
		if _, err := p2pdiloco.Export(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if _, x := tensors(t, out); !math.IsNaN(float64(x[unsoundElement])) {
			t.Error("what was asked for was not written")
		}
	})
}
