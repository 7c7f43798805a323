// Quickstart trains a model of its own, linear regression on made-up data, in a run with a training
// loop of its own.
//
// Start it in two terminals, on one machine or on two of one network; both end with the same state
// root:
//
//	go run ./examples/quickstart
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"

	"github.com/p2pdiloco/p2pdiloco"
)

const inputs, steps, peak = 8, 50, 0.015 // of the model; inner steps of a round; their highest rate

var layout = p2pdiloco.Layout{{Name: "weight", Shape: []uint64{inputs}}, {Name: "bias", Shape: []uint64{1}}}

// train does inner steps of SGD on params, in place, and returns the mean loss. The data follows y
// = 1x0 + 2x1 + ... + 8x7 + 3. The learning rate goes down to half of its peak with the run's
// progress, so that all peers have the same one, whenever they have joined.
func train(params []float32, progress func(stepsDone int) p2pdiloco.Progress) (loss float32) {
	for step := range steps {
		rate := peak * (1 - float32(progress(step).Share())/2)
		x, miss := [inputs]float32{}, params[inputs]-3
		for i := range x {
			x[i] = rand.Float32()*2 - 1
			miss += (params[i] - float32(i+1)) * x[i]
		}
		for i := range x {
			params[i] -= rate * miss * x[i]
		}
		params[inputs] -= rate * miss
		loss += miss * miss / steps
	}
	return loss
}

func main() {
	name := flag.String("run", "quickstart", "`name` of the run")
	bootstrap := flag.String("bootstrap", "",
		"`multiaddr` of a peer or bootstrap node (default: look on the local network)")
	flag.Parse()
	cfg := p2pdiloco.Config{
		Spec: p2pdiloco.Spec{
			Name: *name, Rounds: 20, InnerSteps: steps, StartPeers: 2, OuterLR: "0.7", Momentum: "0.6", Layout: layout,
		},
		Preset: p2pdiloco.PresetLAN,
	}
	if *bootstrap != "" {
		cfg.Bootstrap = []string{*bootstrap}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := takePart(ctx, cfg, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// takePart joins, or founds, the run and trains until its last round.
func takePart(ctx context.Context, cfg p2pdiloco.Config, out io.Writer) (err error) {
	node, err := p2pdiloco.Join(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	fmt.Fprintf(out, "peer %s, others can start from %s\n", node.Self(), node.Addrs()[0])

	params := make([]float32, layout.Elements())
	round, err := node.Anchor(ctx, params) // the model as the run has it now
	for err == nil {
		loss := train(params, node.Progress) // any training that changes params
		fmt.Fprintf(out, "round %d: loss %.4f\n", round+1, loss)
		err = node.Sync(ctx, params, steps) // params are now what all peers agreed on
		round = node.Status().Slot
	}
	if !errors.Is(err, p2pdiloco.ErrRunEnded) {
		return err
	}
	fmt.Fprintf(out, "the run has ended, state root %s\n", node.Status().StateRoot)
	return nil
}
