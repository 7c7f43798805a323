package p2pdiloco_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/libp2p/go-libp2p"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// line fits one number to a target of its own: the smallest model there is.
type line struct{ x, target float32 }

func (l *line) Layout() p2pdiloco.Layout {
	return p2pdiloco.Layout{{Name: "x", Shape: []uint64{1}}}
}

func (l *line) Init(_ context.Context, dst []float32) error    { dst[0] = 0; return nil }
func (l *line) Load(_ context.Context, anchor []float32) error { l.x = anchor[0]; return nil }
func (l *line) Export(_ context.Context, dst []float32) error  { dst[0] = l.x; return nil }

func (l *line) Train(_ context.Context, task p2pdiloco.Task) (p2pdiloco.Stats, error) {
	for range task.Steps {
		l.x += 0.1 * (l.target - l.x)
	}
	return p2pdiloco.Stats{Steps: task.Steps, Tokens: uint64(task.Steps)}, nil
}

// Two peers in one process, on the loopback interface. The first finds nobody and founds the run;
// the second starts from the first one's address. Each pulls the number to a target of its own, and
// they end with the mean, bit for bit the same.
func ExampleJoin() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	spec := p2pdiloco.Spec{
		Name: "example-join", Rounds: 3, InnerSteps: 100, StartPeers: 2, Aggregator: "mean", Outer: "sgd", OuterLR: "1",
	}
	trainers := []*line{{target: 2}, {target: 4}}
	var bootstrap []string
	var nodes []*p2pdiloco.Node
	for _, t := range trainers {
		node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{
			Spec: spec, Trainer: t, Preset: p2pdiloco.PresetLAN, Listen: []string{"/ip4/127.0.0.1/tcp/0"},
			Bootstrap: bootstrap,
		})
		if err != nil {
			log.Fatal(err)
		}
		defer node.Close()
		nodes, bootstrap = append(nodes, node), node.Addrs()
	}
	ended := make(chan error)
	for _, node := range nodes {
		go func() { ended <- node.Run(ctx) }()
	}
	if err := errors.Join(<-ended, <-ended); err != nil {
		log.Fatal(err)
	}
	a, b := nodes[0].Status(), nodes[1].Status()
	fmt.Println("slots:", a.Slot, b.Slot)
	fmt.Println("equal:", a.StateRoot == b.StateRoot)
	fmt.Printf("x: %.3f\n", trainers[0].x)
	// Output:
	// slots: 3 3
	// equal: true
	// x: 3.000
}

// A program with its own training loop, on its own libp2p host. Here it is alone in the run.
func ExampleNode_Sync() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	host, err := libp2p.New(libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"))
	if err != nil {
		log.Fatal(err)
	}
	defer host.Close()
	network, err := p2p.New(ctx, p2p.LAN(), p2p.WithHost(host))
	if err != nil {
		log.Fatal(err)
	}
	defer network.Close()
	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{
		Network: network, Preset: p2pdiloco.PresetLAN,
		Spec: p2pdiloco.Spec{
			Name: "example-sync", Rounds: 2, Outer: "sgd", OuterLR: "1", Aggregator: "mean",
			Layout: p2pdiloco.Layout{{Name: "weight", Shape: []uint64{2, 2}}, {Name: "bias", Shape: []uint64{2}}},
		},
		Init: func(params []float32) error { params[0] = 16; return nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()

	params := make([]float32, node.Spec().Layout.Elements())
	_, err = node.Anchor(ctx, params)
	for err == nil {
		fmt.Println(params)
		for i := range params { // the inner steps
			params[i] /= 2
		}
		err = node.Sync(ctx, params, 100)
	}
	fmt.Println(params, errors.Is(err, p2pdiloco.ErrRunEnded))
	// Output:
	// [16 0 0 0 0 0]
	// [8 0 0 0 0 0]
	// [4 0 0 0 0 0] true
}
