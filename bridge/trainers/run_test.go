//go:build cgo

package trainers_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// TestRunWithBuiltins: the C trainer in a run of three, whose other two train with the built-in
// one. All end with the same state, and it is a better model than the first.
func TestRunWithBuiltins(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	p := pair{cfg: tiny, corpus: builtin.CorpusConfig{Paths: []string{write(t, manyFiles())}}}
	second, first := p.start(t)
	third, _ := p.start(t)
	trainers := []trainer.Trainer{first, second, third} // the first founds the run
	initialize(t, second, first)
	before := held(t, first)

	nodes := join(ctx, t, trainers)
	ended := make(chan error)
	for _, node := range nodes {
		go func() { ended <- node.Run(ctx) }()
	}
	if err := errors.Join(<-ended, <-ended, <-ended); err != nil {
		t.Fatal(err)
	}
	for i, node := range nodes {
		s := node.Status()
		if s.Slot != 4 || s.StateRoot != nodes[0].Status().StateRoot {
			t.Errorf("peer %d: slot %d, state root %v, want that of the first, %v", i+1, s.Slot, s.StateRoot,
				nodes[0].Status().StateRoot)
		}
	}
	for i, tr := range trainers {
		after := held(t, tr)
		if !(after < before-0.3) || math.Abs(after-held(t, first)) > 1e-4 {
			t.Errorf("peer %d: held-out loss %v -> %v", i+1, before, after)
		}
	}
}

// held is the held-out loss.
func held(t *testing.T, tr trainer.Trainer) float64 {
	t.Helper()
	loss, err := tr.(trainer.Evaluator).Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return loss
}

// join starts a node for each trainer, on the loopback interface. The first finds nobody and founds
// the run.
func join(ctx context.Context, t *testing.T, trainers []trainer.Trainer) (nodes []*p2pdiloco.Node) {
	t.Helper()
	var bootstrap []string
	for _, tr := range trainers {
		node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{
			Spec: p2pdiloco.Spec{
				Name: fmt.Sprintf("c-and-go-%d", os.Getpid()), Rounds: 4, InnerSteps: 10,
				StartPeers: uint64(len(trainers)), Outer: "sgd", OuterLR: "1", Aggregator: "mean",
			},
			Trainer: tr, Preset: p2pdiloco.PresetLAN, Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Bootstrap: bootstrap,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = node.Close() })
		nodes, bootstrap = append(nodes, node), node.Addrs()
	}
	return nodes
}
