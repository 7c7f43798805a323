//go:build cgo && unix

package cgo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// member is a node with a trainer library, on the loopback interface.
type member struct {
	node    *p2pdiloco.Node
	trainer Library
	ended   chan error
	mu      struct {
		sync.Mutex
		left map[string]string // why, by peer
		loss []any
	}
}

func (m *member) note(e p2pdiloco.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Name {
	case "peer.left":
		m.mu.left[fmt.Sprint(e.Fields["about"])] = fmt.Sprint(e.Fields["reason"])
	case "trainer.stats":
		m.mu.loss = append(m.mu.loss, e.Fields["loss"])
	}
}

// members join a run, each with a trainer of its own, and run it; the test waits for ended.
//
//nolint:revive // the context is the run's
func members(t *testing.T, ctx context.Context, spec p2pdiloco.Spec, trainers ...Library) []*member {
	t.Helper()
	var all []*member
	var bootstrap []string
	for _, p := range trainers {
		m := &member{trainer: p, ended: make(chan error, 1)}
		m.mu.left = make(map[string]string)
		node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{
			Spec: spec, Trainer: p, Preset: p2pdiloco.PresetLAN, Listen: []string{"/ip4/127.0.0.1/tcp/0"},
			Bootstrap: bootstrap,
			DataDir:   t.TempDir(), OnEvent: m.note,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(node.Close(), p.Close()); err != nil {
				t.Error(err)
			}
		})
		m.node, bootstrap = node, node.Addrs()
		all = append(all, m)
	}
	for _, m := range all {
		go func() { m.ended <- m.node.Run(ctx) }()
	}
	return all
}

// spec is of a run that no other process on the local network has.
func spec(name string, rounds uint64, peers int) p2pdiloco.Spec {
	return p2pdiloco.Spec{
		Name: fmt.Sprintf("%s-%d", name, os.Getpid()), Rounds: rounds, InnerSteps: 10, StartPeers: uint64(peers),
		Aggregator: "mean", Outer: "sgd", OuterLR: "1",
	}
}

// TestThreePeers train one model with one library, through real nodes.
func TestThreePeers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var trainers []Library
	for _, target := range []int{1, 2, 6} {
		trainers = append(trainers, open(t, "bowl", fmt.Sprintf(`{"size": 20000, "target": %d}`, target)))
	}
	all := members(t, ctx, spec("cgo-three", 6, 3), trainers...)
	for _, m := range all {
		if err := <-m.ended; err != nil {
			t.Error(err)
		}
	}
	x := make([]float32, 20000)
	if err := trainers[0].Export(ctx, x); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if s := m.node.Status(); s.Slot != 6 || s.StateRoot != all[0].node.Status().StateRoot {
			t.Errorf("ended at slot %d with %s", s.Slot, s.StateRoot)
		}
		m.mu.Lock()
		if len(m.mu.loss) != 7 {
			t.Errorf("losses %v", m.mu.loss)
		}
		m.mu.Unlock()
		if !m.trainer.(*library).given {
			t.Error("the node did not work in the shared memory")
		}
	}
	for _, i := range []int{0, 19999} {
		if x[i] < 2.8 || x[i] > 3.2 { // the mean of the targets
			t.Errorf("element %d ends at %v", i, x[i])
		}
	}
}

// TestTheTimeOfTheRun: a library is told where the run is when its steps begin, and where it ends.
func TestTheTimeOfTheRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all := members(t, ctx, spec("cgo-time", 6, 1), open(t, "bad", `{"how":"timed counts stops", "in":"run"}`))
	want := ": run for slot 4: step 30 of 60 after 30 steps"
	if err := <-all[0].ended; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Error(err)
	}
}

// TestPeersInModeStreaming: parts of the model go to the libraries and come from them, through
// memory that is shared, and each library is left with the run's last model.
func TestPeersInModeStreaming(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var trainers []Library
	for _, target := range []int{1, 5} {
		trainers = append(trainers, open(t, "bowl", fmt.Sprintf(`{"size": 20000, "target": %d}`, target)))
	}
	s := spec("cgo-streaming", 5, 2)
	s.Mode, s.Fragments, s.FragmentAlpha, s.FragmentDelay = p2pdiloco.ModeStreaming, 3, "0.25", "1"
	all := members(t, ctx, s, trainers...)
	for _, m := range all {
		if err := <-m.ended; err != nil {
			t.Error(err)
		}
	}
	anchor, x := make([]float32, 20000), make([]float32, 20000)
	if _, err := all[0].node.Anchor(ctx, anchor); !errors.Is(err, p2pdiloco.ErrRunEnded) {
		t.Fatal(err)
	}
	for i, m := range all {
		if s := m.node.Status(); s.Slot != 15 || s.StateRoot != all[0].node.Status().StateRoot {
			t.Errorf("ended at slot %d with %s", s.Slot, s.StateRoot)
		}
		if err := trainers[i].Export(ctx, x); err != nil || !slices.Equal(x, anchor) {
			t.Errorf("library %d is left with another model (%v)", i, err)
		}
	}
	if x[0] < 2.7 || x[0] > 3.3 || x[19999] < 2.7 || x[19999] > 3.3 { // the mean of the targets
		t.Errorf("elements end at %v and %v", x[0], x[19999])
	}
}

// TestFaultsLeaveTheRun: a trainer that fails ends its peer's part with one line, the others record
// that it left, and go on. One whose model is not the run's does not get in, and the tensor is
// named.
func TestFaultsLeaveTheRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	all := members(t, ctx, spec("cgo-faults", 100_000, 3), open(t, "bowl", `{"pause_ms": 2}`),
		open(t, "bad", `{"how":"no-weight from-slot-3", "in":"run"}`),
		open(t, "bad", `{"how":"nan-parameter from-slot-3", "in":"run"}`))
	for i, want := range []string{
		1: ": run for slot 3: it says that it processed no tokens",
		2: `: export_gradient: p2pdiloco: the pseudo-gradient is not finite: element 5 of 1000 (tensor "x") is NaN`,
	} {
		if want == "" {
			continue
		}
		err := <-all[i].ended
		var failed *p2pdiloco.TrainerError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), "/bad.so"+want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("the error is %v", err)
		}
		if err := all[i].node.Leave(ctx); err != nil {
			t.Errorf("Leave: %v", err)
		}
	}
	good := all[0]
	refuseStranger(t, ctx, good.node)
	if s := good.node.Status(); s.Slot < 2 || len(s.Members) != 1 {
		t.Errorf("the other is at slot %d with members %v", s.Slot, s.Members)
	}
	cancel()
	if err := <-good.ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	good.mu.Lock()
	defer good.mu.Unlock()
	for _, bad := range all[1:] {
		if why := good.mu.left[bad.node.Self().String()]; why != "left" {
			t.Errorf("the other has recorded %q", good.mu.left)
		}
	}
}

func refuseStranger(t *testing.T, ctx context.Context, known *p2pdiloco.Node) { //nolint:revive // as in members
	t.Helper()
	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{
		Spec: spec("cgo-faults", 100_000, 3), Trainer: open(t, "bowl", `{"size": 999}`), Preset: p2pdiloco.PresetLAN,
		Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Bootstrap: known.Addrs(),
	})
	if err == nil {
		_ = node.Close()
	}
	if err == nil || !strings.Contains(err.Error(), `tensor 0 is "x" [998] here and "x" [999] there`) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("a stranger with another model got %v", err)
	}
}
