//go:build cgo && unix

package cgo

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// TestCUDAInOneRun: the CUDA trainer and the built-in one train one model together. They end with
// the same state of the run and the same parameters, on which they measure the same loss; it is
// lower than at the start.
func TestCUDAInOneRun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	config := small + "data " + prose(t, 5000)
	trainers := []trainer.Trainer{startCUDA(t, config, 1), startBuiltin(t, config, 1)}
	before := evaluate(t, trainers[1])
	var nodes []*p2pdiloco.Node
	var bootstrap []string
	for _, tr := range trainers {
		node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{
			Spec: p2pdiloco.Spec{
				Name: fmt.Sprintf("cuda-and-builtin-%d", os.Getpid()), Rounds: 2, InnerSteps: 4, StartPeers: 2,
				Aggregator: "mean", Outer: "sgd", OuterLR: "1",
			},
			Trainer: tr, Preset: p2pdiloco.PresetLAN, Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Bootstrap: bootstrap,
			DataDir: t.TempDir(),
		})
		must(t, err)
		defer func() { must(t, node.Close()) }()
		nodes, bootstrap = append(nodes, node), node.Addrs()
	}
	ended := make(chan error)
	for _, node := range nodes {
		go func() { ended <- node.Run(ctx) }()
	}
	for range nodes {
		must(t, <-ended)
	}
	a, b := nodes[0].Status(), nodes[1].Status()
	if a.Slot != 2 || b.Slot != 2 || a.StateRoot != b.StateRoot {
		t.Errorf("ended at slots %d and %d with %s and %s", a.Slot, b.Slot, a.StateRoot, b.StateRoot)
	}
	if !slices.Equal(export(t, trainers[0]), export(t, trainers[1])) {
		t.Error("they are left with two models")
	}
	after := evaluate(t, trainers[1])
	near(t, "the held-out loss", after, evaluate(t, trainers[0]), 1e-5)
	if after > before-0.05 {
		t.Errorf("the held-out loss was %v, and is %v", before, after)
	}
}
