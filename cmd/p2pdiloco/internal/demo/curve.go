package demo

import (
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Size of the picture.
const (
	curveWidth  = 18 * vg.Centimeter
	curveHeight = 11 * vg.Centimeter
)

var (
	swarmColour = color.RGBA{R: 0x1f, G: 0x5f, B: 0xb4, A: 0xff}
	aloneColour = color.RGBA{R: 0xc8, G: 0x5a, B: 0x1e, A: 0xff}
)

// drawCurve writes a PNG of the held-out loss by round.
func drawCurve(path string, peers int, swarm, alone []float64) error {
	p := plot.New()
	p.Title.Text = "Held-out loss"
	p.X.Label.Text = "round"
	p.Y.Label.Text = "nats per byte"
	p.X.Tick.Marker = plot.TickerFunc(wholeTicks)
	p.Legend.Top, p.Legend.Padding = true, vg.Points(3)
	p.Add(plotter.NewGrid())
	for _, c := range []struct {
		name   string
		losses []float64
		colour color.Color
	}{
		{fmt.Sprintf("swarm of %d peers", peers), swarm, swarmColour},
		{"one peer alone, as many steps of its own", alone, aloneColour},
	} {
		if err := addCurve(p, c.name, c.losses, c.colour); err != nil {
			return fmt.Errorf("loss curve: %w", err)
		}
	}
	if err := p.Save(curveWidth, curveHeight, path); err != nil {
		return fmt.Errorf("loss curve: %w", err)
	}
	return nil
}

// wholeTicks marks the axis where it is a whole number: there are no half rounds.
func wholeTicks(low, high float64) (ticks []plot.Tick) {
	for _, t := range (plot.DefaultTicks{}).Ticks(low, high) {
		if t.Value == math.Trunc(t.Value) {
			ticks = append(ticks, plot.Tick{Value: t.Value, Label: strconv.FormatFloat(t.Value, 'f', 0, 64)})
		}
	}
	return ticks
}

func addCurve(p *plot.Plot, name string, losses []float64, colour color.Color) error {
	if len(losses) == 0 {
		return nil
	}
	xy := make(plotter.XYs, len(losses))
	for i, loss := range losses {
		xy[i] = plotter.XY{X: float64(i), Y: loss}
	}
	line, points, err := plotter.NewLinePoints(xy)
	if err != nil {
		return err
	}
	line.Color, line.Width = colour, vg.Points(1.5)
	points.Color, points.Shape = colour, draw.CircleGlyph{}
	p.Add(line, points)
	p.Legend.Add(name, line, points)
	return nil
}
