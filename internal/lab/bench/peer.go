package bench

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/rpc"
	"os"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// HiddenCommand is the command of this program that calls Serve.
const HiddenCommand = "bench-peer"

// pipe is a connection to another process.
type pipe struct {
	io.Reader
	io.WriteCloser
}

// ServePeer is a peer's process: it does what it is called for over stdin and stdout, until stdin
// ends.
func ServePeer(ctx context.Context) error {
	s := rpc.NewServer()
	one := &alone{}
	one.ctx, one.fail = context.WithCancelCause(ctx)
	err := errors.Join(s.RegisterName("Node", &node{ctx: ctx, recorder: &recorder{slots: map[uint64]*Marks{}}}),
		s.RegisterName("Alone", one))
	s.ServeConn(pipe{os.Stdin, os.Stdout})
	return err
}

// Order is what a peer is told at first.
type Order struct {
	Case      Case
	Run       string
	Slots     uint64 // that count
	Number    int    // of this peer, from 1
	Listen    []string
	Bootstrap []string
	DataDir   string
}

// Told is what a whole node did.
type Told struct {
	Slots  map[uint64]*Marks
	Before Counts  // the first slot that counts
	After  Counts  // the last
	Memory float64 // most bytes that were resident; 0: the system does not say
	Live   float64 // bytes that were, after the last slot that counts, without garbage
}

// node is a peer that is a whole node, and its trainer, which takes no CPU time worth the name: its
// inner steps add noise, so that no compression makes a pseudo-gradient small.
type node struct {
	Order
	ctx      context.Context
	recorder *recorder
	node     *p2pdiloco.Node
	told     *Told
	noise, x []float32
	loaded   time.Time
}

// Run takes part in the run to its end.
func (n *node) Run(o Order, told *Told) (err error) {
	n.Order, n.told = o, told
	elements := o.Case.elements()
	n.noise, n.x = noise(elements, uint64(o.Number)), make([]float32, elements)
	hooks := edge.WithHooks(n.ctx, &edge.Hooks{
		Offer: func(slot uint64, _ *allreduce.Contribution) { n.recorder.note(slot, "offered", time.Now()) },
	})
	n.node, err = p2pdiloco.Join(hooks, p2pdiloco.Config{
		Spec:    o.Case.spec(o.Run, o.Slots),
		Trainer: n, DataDir: o.DataDir, Preset: o.Case.preset(), Listen: o.Listen, Bootstrap: o.Bootstrap,
		OnEvent: n.recorder.event, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	err = errors.Join(n.node.Run(n.ctx), n.node.Close())
	told.Slots, told.Memory = n.recorder.slots, PeakMemory()
	return err
}

func noise(elements, seed uint64) []float32 {
	x, random := make([]float32, elements), rand.New(rand.NewPCG(seed, elements))
	for i := range x {
		x[i] = random.Float32() - .5
	}
	return x
}

// Layout implements trainer.Trainer.
func (n *node) Layout() trainer.Layout { return layout(n.Case.elements()) }

// Init implements trainer.Trainer.
func (n *node) Init(context.Context, []float32) error { return nil }

// Load implements trainer.Trainer.
func (n *node) Load(_ context.Context, anchor []float32) error {
	copy(n.x, anchor)
	n.loaded = time.Now()
	return nil
}

// Train implements trainer.Trainer. Slots are counted from one end of inner steps to the next.
func (n *node) Train(_ context.Context, task trainer.Task) (trainer.Stats, error) {
	scale := 1e-3 * float32(1+task.Slot%7)
	for i, x := range n.noise {
		n.x[i] += float32(scale * x)
	}
	n.recorder.note(task.Slot-1, "loaded", n.loaded)
	n.recorder.note(task.Slot, "trained", time.Now())
	switch task.Slot {
	case warmUps + 1:
		n.told.Before = countsNow(n.node.Status().Traffic)
	case warmUps + n.Slots + 1:
		n.told.After = countsNow(n.node.Status().Traffic)
		n.told.Live = LiveMemory()
	}
	return trainer.Stats{Steps: task.Steps, Tokens: uint64(task.Steps)}, nil
}

// Export implements trainer.Trainer.
func (n *node) Export(_ context.Context, dst []float32) error { copy(dst, n.x); return nil }
