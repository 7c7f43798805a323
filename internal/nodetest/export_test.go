package nodetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/safetensors"
)

// tensors are those of a model file.
func tensors(t *testing.T, path string) (*safetensors.File, []float32) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := safetensors.Open(strings.NewReader(string(b)), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, BowlElements)
	if err := m.Read(x, bowlLayout()); err != nil {
		t.Fatal(err)
	}
	return m, x
}

// The model of a run that has ended founds another one: with the same file on all founders, and
// without it on a peer that joins later.
func TestARunIsFoundedFromAnExportedModel(t *testing.T) {
	spec := Spec(5, 2)
	spec.Outer, spec.Momentum = "sgd", "0" // then the parameters alone are the state
	Run(t, spec, 2, func(s *Swarm) {
		s.Start(s.Peers...)
		s.Finish(time.Minute, s.Peers...)
		file, began := exported(s, s.Peers[0])
		s.Spec, s.Peers = Spec(4, 2), nil
		s.Spec.Name = "second"
		a, b, late, wrong := s.Add(), s.Add(), s.Add(), s.Add()
		for _, p := range []*Peer{a, b} {
			p.Config = func(c *p2pdiloco.Config) { c.InitFile = file }
		}
		wrong.Config = func(c *p2pdiloco.Config) { c.InitFile = otherModel(t) }
		s.Start(a, b)
		s.Reach(1, a, b)
		s.Start(late, wrong)
		var refused *p2pdiloco.SpecError
		if err := s.Outcome(wrong, time.After(time.Minute)); !errors.As(err, &refused) || refused.Field != "init" ||
			!strings.Contains(err.Error(), "another model") {
			t.Errorf("a peer with another file: %v", err)
		}
		s.Finish(time.Minute, a, b, late)
		for _, p := range []*Peer{a, b, late} {
			text, err := os.ReadFile(filepath.Join(p.Dir, "run.spec"))
			if err != nil || !strings.Contains(string(text), "root:"+began.String()) {
				t.Errorf("host %d: the run began with another model than %s: %q, %v", p.Host, began, text, err)
			}
		}
	})
}

// exported writes the last model of a run of five slots to a file. began is the root of a state
// that begins with it.
func exported(s *Swarm, p *Peer) (file string, began p2pdiloco.Root) {
	s.T.Helper()
	file = filepath.Join(s.T.TempDir(), "model.safetensors")
	e, err := p2pdiloco.Export(s.T.Context(), p2pdiloco.ExportConfig{DataDir: p.Dir, Out: file})
	if err != nil {
		s.T.Fatal(err)
	}
	if e.Slot != 5 || e.StateRoot != p.States()[5] || !e.Certified || e.Elements != BowlElements {
		s.T.Fatalf("exported %+v", e)
	}
	m, x := tensors(s.T, file)
	if m.Metadata["slot"] != "5" || m.Metadata["state_root"] != e.StateRoot.String() ||
		m.Metadata["run_id"] != e.RunID.String() || len(m.Tensors) != 1 {
		s.T.Fatalf("metadata %v, tensors %v", m.Metadata, m.Tensors)
	}
	if checkpoint.StateRoot(checkpoint.Count{Slot: 5}, x) != e.StateRoot {
		s.T.Error("what was written is not what was agreed")
	}
	return file, checkpoint.StateRoot(checkpoint.Count{}, x, make([]float32, len(x)))
}

// otherModel makes a model file of the same shape with other values, zeros.
func otherModel(t *testing.T) string { return modelFile(t, make([]float32, BowlElements)) }

func modelFile(t *testing.T, values []float32) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.safetensors")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := safetensors.Write(f, nil, bowlLayout(), values); err != nil {
		t.Fatal(err)
	}
	return path
}

// The directory of a running peer, and of one that was killed between two checkpoints, gives every
// slot since the older one.
func TestExportBesideARunningPeer(t *testing.T) {
	Once(t, 40, 1, func(s *Swarm) {
		p, out := s.Peers[0], filepath.Join(t.TempDir(), "m.safetensors")
		s.Start(p)
		s.Reach(14, p)
		export := func(at *uint64) (p2pdiloco.Exported, error) {
			return p2pdiloco.Export(t.Context(), p2pdiloco.ExportConfig{
				DataDir: p.Dir, Out: out, Slot: at, Force: at != nil,
			})
		}
		e, err := export(nil)
		if err != nil || e.Slot < 13 || e.Slot%4 == 0 && e.Slot != e.Restored || e.StateRoot != p.States()[e.Slot] {
			t.Fatalf("beside a running peer: %+v, %v", e, err)
		}
		s.Stop(p)
		last := p.Applied()
		for back := range uint64(4) {
			wanted := last - back
			e, err := export(&wanted)
			if err != nil || e.Slot != wanted || e.StateRoot != p.States()[wanted] {
				t.Errorf("slot %d: %+v, %v", wanted, e, err)
			}
			if e.Certified != (wanted < last) {
				t.Errorf("slot %d of %d: certified %v", wanted, last, e.Certified)
			}
		}
		for slotNumber, want := range map[uint64]string{last + 1: "not there yet", 1: "no longer on disk"} {
			if _, err := export(&slotNumber); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("slot %d: %v, want %q", slotNumber, err, want)
			}
		}
	})
}

// What cannot be exported is refused with what to do, and nothing is written.
func TestExportSaysWhatIsMissing(t *testing.T) {
	Once(t, 6, 1, func(s *Swarm) {
		p := s.Peers[0]
		s.Start(p)
		s.Finish(time.Minute, p)
		dir := t.TempDir()
		out := filepath.Join(dir, "m.safetensors")
		if err := os.WriteFile(out, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		try := func(want string) {
			t.Helper()
			_, err := p2pdiloco.Export(t.Context(), p2pdiloco.ExportConfig{DataDir: p.Dir, Out: out})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		try("--force")
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
		Damage(t, p, "state")
		try("no usable checkpoint")
		Remove(t, p, "state")
		try("holds no checkpoint yet")
		Remove(t, p, "ledger.log")
		try("holds no ledger.log")
		Remove(t, p, "run.spec")
		try("holds no run.spec")
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Errorf("left behind: %v, %v", entries, err)
		}
	})
}

// A model file that does not fit is refused before anything is joined, with every difference.
func TestAnInitFileThatDoesNotFitIsRefused(t *testing.T) {
	path := otherModel(t)
	layout := p2pdiloco.Layout{{Name: "x", Shape: []uint64{BowlElements, 1}}, {Name: "y", Shape: []uint64{2}}}
	for name, c := range map[string]struct {
		cfg  p2pdiloco.Config
		want []string
	}{
		"another layout": {
			p2pdiloco.Config{Spec: p2pdiloco.Spec{Name: "r", Layout: layout}, InitFile: path},
			[]string{`"x" is [5000] in the file and [5000 1]`, `"y" [2] is missing`},
		},
		"no layout": {
			p2pdiloco.Config{Spec: p2pdiloco.Spec{Name: "r"}, InitFile: path},
			[]string{"InitFile needs a Trainer"},
		},
		"no file": {
			p2pdiloco.Config{Spec: p2pdiloco.Spec{Name: "r", Layout: layout}, InitFile: path + "x"},
			[]string{"no such file"},
		},
		"two models": {p2pdiloco.Config{
			Spec: p2pdiloco.Spec{Name: "r", Layout: layout}, InitFile: path,
			Init: func([]float32) error { return nil },
		}, []string{"both Init and InitFile are given"}},
		"another root": {
			p2pdiloco.Config{
				Spec: p2pdiloco.Spec{
					Name: "r", Layout: bowlLayout(), Init: "root:" + strings.Repeat("0", 64),
				},
				InitFile: path,
			}, []string{"init", "the state that"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p2pdiloco.Join(context.Background(), c.cfg)
			if err == nil || slices.ContainsFunc(c.want,
				func(w string) bool { return !strings.Contains(err.Error(), w) }) {
				t.Fatalf("%v, want %q", err, c.want)
			}
		})
	}
}

// bowlLayout is the layout of the bowl's model.
func bowlLayout() p2pdiloco.Layout { return (&Bowl{}).Layout() }
