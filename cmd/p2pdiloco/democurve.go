package main

import (
	"fmt"
	"os"

	"github.com/p2pdiloco/p2pdiloco/internal/view/document"
)

// drawCurve writes an SVG of the held-out loss by round.
func drawCurve(path string, peers int, swarm, alone []float64) error {
	p := document.Plot{Title: "Held-out loss", X: "round", Y: "nats per byte", Series: []document.Series{
		{Name: fmt.Sprintf("swarm of %d peers", peers), Y: swarm},
		{Name: "one peer alone, as many steps of its own", Y: alone},
	}}
	for i := range p.Series {
		for round := range p.Series[i].Y {
			p.Series[i].X = append(p.Series[i].X, float64(round))
		}
	}
	if err := os.WriteFile(path, p.Draw(), 0o644); err != nil {
		return fmt.Errorf("loss curve: %w", err)
	}
	return nil
}
