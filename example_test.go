package p2pdiloco_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
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

// What newcomers need to join is one line of text.
func ExampleNode_Invite() {
	ctx := context.Background()
	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{
		DataDir: "member", Spec: p2pdiloco.Spec{Name: "books", Access: p2pdiloco.AccessPrivate}, Trainer: &line{},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	if err := node.Wait(ctx, p2pdiloco.PhaseRunning); err != nil {
		log.Fatal(err)
	}
	ticket, err := node.Invite(ctx, p2pdiloco.InviteOptions{TTL: time.Hour, Uses: 2})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ticket) // for Config.Ticket on two other machines
}

// A model is written from a data directory, whether its peer runs or not.
func ExampleExport() {
	done, err := p2pdiloco.Export(context.Background(), p2pdiloco.ExportConfig{
		DataDir: "member", Out: "model.safetensors",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Slot, done.StateRoot, done.Certified)
}

// A program hears of each slot as it is applied: Decode gives fields their types.
func ExampleEvent_Decode() {
	cfg := p2pdiloco.Config{Spec: p2pdiloco.Spec{Name: "books"}, Trainer: &line{}}
	cfg.OnEvent = func(e p2pdiloco.Event) {
		var applied struct {
			Slot      uint64
			StateRoot p2pdiloco.Root `json:"state_root"`
		}
		if e.Name == "slot.applied" && e.Decode(&applied) == nil {
			fmt.Println(applied.Slot, applied.StateRoot)
		}
	}
	node, err := p2pdiloco.Join(context.Background(), cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
}

// Sync in two halves, for a loop that has something to do while the slot is reduced.
func ExampleNode_Begin() {
	ctx := context.Background()
	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{Spec: p2pdiloco.Spec{
		Name: "books", Layout: p2pdiloco.Layout{{Name: "w", Shape: []uint64{4}}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	params := make([]float32, 4)
	_, err = node.Anchor(ctx, params)
	for err == nil {
		params[0]-- // the inner steps
		var round *p2pdiloco.Round
		if round, err = node.Begin(params, 100); err == nil {
			fmt.Println("evaluating while the others' parts come")
			_, err = round.Finish(ctx, params)
		}
	}
	fmt.Println(err) // p2pdiloco.ErrRunEnded after the last slot
}

// A peer that leaves tells the others, which then do not wait for it. Close does not tell them.
func ExampleNode_Leave() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{Spec: p2pdiloco.Spec{Name: "books"}, Trainer: &line{}})
	if err != nil {
		log.Fatal(err)
	}
	if err := node.Run(ctx); err != nil && ctx.Err() == nil {
		log.Print(err)
	}
	leaving, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := node.Leave(leaving); err != nil {
		log.Print(err)
	}
}
