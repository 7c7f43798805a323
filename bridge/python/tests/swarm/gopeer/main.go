// Gopeer is a peer in Go with box_peer.py's model and steps, whose trainer is in the node's own
// process. Its argument is a JSON object with the fields of settings. It prints what test_boxes.py
// compares.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// toy is the model.
type toy struct {
	live  []float32
	parts map[uint64]uint64 // of the data, by slot
	start []float32         // the newest one that was loaded
}

func (*toy) Layout() trainer.Layout {
	return trainer.Layout{{Name: "w", Shape: []uint64{5, 4}}, {Name: "b", Shape: []uint64{7}}, {Name: "s"}}
}

func (*toy) Init(_ context.Context, dst []float32) error {
	for i := range dst {
		dst[i] = 0.5 + float32(i)/64
	}
	return nil
}

func (t *toy) Load(_ context.Context, start []float32) error {
	t.live, t.start = append(t.live[:0], start...), append(t.start[:0], start...)
	return nil
}

func (t *toy) Export(_ context.Context, dst []float32) error {
	copy(dst, t.live)
	return nil
}

func (t *toy) Train(_ context.Context, task trainer.Task) (trainer.Stats, error) {
	for step := range task.Steps {
		for i, x := range t.live {
			grad := 0.5*x + 0.25 + 0.125*float32(task.Part%3)
			t.live[i] = x - float32(0.01*grad)
		}
		task.Report(step + 1)
	}
	t.parts[task.Slot] = task.Part
	return trainer.Stats{Steps: task.Steps, Tokens: uint64(task.Steps)}, nil
}

// settings are those of a run, and of a peer. A slot waits for all peers.
type settings struct {
	Run, Bootstrap, DataDir   string
	Rounds, InnerSteps, Peers uint64
}

func main() {
	var s settings
	err := json.Unmarshal([]byte(os.Args[1]), &s)
	if err == nil {
		err = takePart(context.Background(), s)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func takePart(ctx context.Context, s settings) (err error) {
	t := &toy{parts: map[uint64]uint64{}}
	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{
		Spec: p2pdiloco.Spec{
			Name: s.Run, Rounds: s.Rounds, InnerSteps: s.InnerSteps, StartPeers: s.Peers, MinPeers: s.Peers,
			Aggregator: "mean", Clip: "off",
		},
		Trainer: t, Preset: p2pdiloco.PresetLAN, DataDir: s.DataDir, Found: true,
		Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Bootstrap: []string{s.Bootstrap},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	if err := node.Run(ctx); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"peer": node.Self().String(), "parts": t.parts, "last": t.start, "root": node.Status().StateRoot.String(),
	})
}
