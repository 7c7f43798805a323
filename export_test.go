package p2pdiloco

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
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
	x := make([]float32, bowlElements)
	if err := m.Read(x, bowlLayout()); err != nil {
		t.Fatal(err)
	}
	return m, x
}

// The model of a run that has ended founds another one: with the same file on all founders, and without it on who joins later.
func TestARunIsFoundedFromAnExportedModel(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(5, 2), 2, func(s *swarm) {
		s.start(s.peers...)
		s.finish(time.Minute, s.peers...)
		file, began := exported(s, s.peers[0])
		s.spec, s.peers = simSpec(4, 2), nil
		s.spec.Name = "second"
		a, b, late, wrong := s.add(), s.add(), s.add(), s.add()
		for _, p := range []*simPeer{a, b} {
			p.config = func(c *Config) { c.InitFile = file }
		}
		wrong.config = func(c *Config) { c.InitFile = otherModel(t) }
		s.start(a, b)
		s.reach(1, a, b)
		s.start(late, wrong)
		var refused *SpecError
		if err := s.outcome(wrong, time.After(time.Minute)); !errors.As(err, &refused) || refused.Field != "init" || !strings.Contains(err.Error(), "another model") {
			t.Errorf("a peer with another file: %v", err)
		}
		s.finish(time.Minute, a, b, late)
		for _, p := range []*simPeer{a, b, late} {
			if spec, err := (dataDir{fs: disk.OS, root: p.dir}).loadSpec(Spec{}); err != nil || spec.Init != "root:"+began.String() {
				t.Errorf("host %d: the run began with %s, want %s; %v", p.host, spec.Init, began, err)
			}
		}
	})
}

// exported writes the last model of a run of five slots to a file. began is the root of a state that begins with it.
func exported(s *swarm, p *simPeer) (file string, began Root) {
	s.t.Helper()
	file = filepath.Join(s.t.TempDir(), "model.safetensors")
	e, err := Export(s.t.Context(), ExportConfig{DataDir: p.dir, Out: file, Momentum: true})
	if err != nil {
		s.t.Fatal(err)
	}
	if e.Slot != 5 || e.StateRoot != p.states()[5] || !e.Certified || e.Elements != bowlElements {
		s.t.Fatalf("exported %+v", e)
	}
	m, x := tensors(s.t, file)
	if m.Metadata["slot"] != "5" || m.Metadata["state_root"] != e.StateRoot.String() || m.Metadata["run_id"] != e.RunID.String() || len(m.Tensors) != 2 {
		s.t.Fatalf("metadata %v, tensors %v", m.Metadata, m.Tensors)
	}
	momentum := make([]float32, len(x))
	if err := m.Read(momentum, Layout{{Name: outerPrefix + "0.x", Shape: []uint64{bowlElements}}}); err != nil {
		s.t.Fatal(err)
	}
	if checkpoint.StateRoot(5, x, momentum) != e.StateRoot {
		s.t.Error("what was written is not what was agreed")
	}
	return file, checkpoint.StateRoot(0, x, make([]float32, len(x)))
}

// otherModel makes a model file of the same shape with other values.
func otherModel(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.safetensors")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := safetensors.Write(f, nil, safetensors.Vector{Layout: bowlLayout(), Values: make([]float32, bowlElements)}); err != nil {
		t.Fatal(err)
	}
	return path
}

// The directory of a running peer, and of one that was killed between two checkpoints, gives every slot since the older one.
func TestExportBesideARunningPeer(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(40, 1), 1, func(s *swarm) {
		p, out := s.peers[0], filepath.Join(t.TempDir(), "m.safetensors")
		s.start(p)
		s.reach(14, p)
		e, err := Export(t.Context(), ExportConfig{DataDir: p.dir, Out: out})
		if err != nil || e.Slot < 13 || e.Slot%4 == 0 && e.Slot != e.Restored || e.StateRoot != p.states()[e.Slot] {
			t.Fatalf("beside a running peer: %+v, %v", e, err)
		}
		s.stop(p)
		last := p.applied()
		for back := range uint64(4) {
			wanted := last - back
			e, err := Export(t.Context(), ExportConfig{DataDir: p.dir, Out: out, Slot: &wanted, Force: true})
			if err != nil || e.Slot != wanted || e.StateRoot != p.states()[wanted] {
				t.Errorf("slot %d: %+v, %v", wanted, e, err)
			}
			if e.Certified != (wanted < last) {
				t.Errorf("slot %d of %d: certified %v", wanted, last, e.Certified)
			}
		}
		for slotNumber, want := range map[uint64]string{last + 1: "not there yet", 1: "no longer on disk"} {
			_, err := Export(t.Context(), ExportConfig{DataDir: p.dir, Out: out, Slot: &slotNumber, Force: true})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("slot %d: %v, want %q", slotNumber, err, want)
			}
		}
	})
}

// What cannot be exported is refused with what to do, and nothing is written.
func TestExportSaysWhatIsMissing(t *testing.T) {
	inSim(t, 10*time.Millisecond, simSpec(6, 1), 1, func(s *swarm) {
		p := s.peers[0]
		s.start(p)
		s.finish(time.Minute, p)
		dir := t.TempDir()
		out := filepath.Join(dir, "m.safetensors")
		if err := os.WriteFile(out, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		try := func(want string) {
			t.Helper()
			_, err := Export(t.Context(), ExportConfig{DataDir: p.dir, Out: out})
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		try("--force")
		if err := os.Remove(out); err != nil {
			t.Fatal(err)
		}
		damage(t, p, "state")
		try("no usable checkpoint")
		remove(t, p, "state")
		try("holds no checkpoint yet")
		remove(t, p, "ledger.log")
		try("holds no ledger.log")
		remove(t, p, specFile)
		try("holds no run.spec")
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Errorf("left behind: %v, %v", entries, err)
		}
	})
}

// A model file that does not fit is refused before anything is joined, with every difference.
func TestAnInitFileThatDoesNotFitIsRefused(t *testing.T) {
	path := otherModel(t)
	layout := Layout{{Name: "x", Shape: []uint64{bowlElements, 1}}, {Name: "y", Shape: []uint64{2}}}
	for name, c := range map[string]struct {
		cfg  Config
		want []string
	}{
		"another layout": {Config{Spec: Spec{Name: "r", Layout: layout}, InitFile: path}, []string{`"x" is [5000] in the file and [5000 1]`, `"y" [2] is missing`}},
		"no layout":      {Config{Spec: Spec{Name: "r"}, InitFile: path}, []string{"InitFile needs a Trainer"}},
		"no file":        {Config{Spec: Spec{Name: "r", Layout: layout}, InitFile: path + "x"}, []string{"no such file"}},
		"two models":     {Config{Spec: Spec{Name: "r", Layout: layout}, InitFile: path, Init: func([]float32) error { return nil }}, []string{"both given"}},
		"another root": {
			Config{Spec: Spec{Name: "r", Layout: bowlLayout(), Init: "root:" + strings.Repeat("0", 64)}, InitFile: path}, []string{"init", "the state that"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Join(context.Background(), c.cfg)
			if err == nil || slices.ContainsFunc(c.want, func(w string) bool { return !strings.Contains(err.Error(), w) }) {
				t.Fatalf("%v, want %q", err, c.want)
			}
		})
	}
}
