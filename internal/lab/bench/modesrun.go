package bench

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// RunModes measures all cells. If one fails, it goes on with the next, and the error says so at the
// end.
func RunModes(ctx context.Context, c ModesConfig, r *Report) error {
	c.Model.Config = c.Model.WithDefaults()
	r.Say("model", "%s, %d parameters", &c.Model, c.Model.Parameters())
	r.Say("training", "%d rounds of %d inner steps of %v, on %d cores", c.Rounds, c.InnerSteps, c.StepTime,
		runtime.NumCPU())
	r.Say("links", "%s", c.Links())
	start := sync.OnceValues(func() (*warm, error) {
		w, err := warmStart(ctx, c)
		if err == nil {
			r.Say("warm-start", "%d data-parallel steps, held-out loss %.4f", c.WarmSteps, w.loss)
		}
		return w, err
	})
	return c.fill(ctx, r, func(ctx context.Context, row row, seed uint64) (result, error) {
		w, err := start()
		if err != nil {
			return result{}, err
		}
		if row.mode == referenceRow {
			return c.reference(ctx, row, w, seed)
		}
		return c.train(ctx, row, w, seed)
	})
}

// cell is what one row gave in one seed.
type cell struct {
	row  string
	seed uint64
	result
}

// result is what was measured of it.
type result struct {
	figures map[string]float64 // by their units
	curve   []point
}

// cellUnits of a cell's figures, as they are printed.
const cellUnits = "loss sec/op payload-B control-B sent-B peak-B stall-% step-x-pace"

// measurer trains a row with a seed.
type measurer func(ctx context.Context, row row, seed uint64) (result, error)

// fill has measure make all cells, adds their figures, and says which there are none of.
func (c ModesConfig) fill(ctx context.Context, r *Report, measure measurer) error {
	var cells []cell
	var errs []error
	for seed := uint64(1); seed <= c.Seeds; seed++ {
		for _, row := range c.rows() {
			made, err := result{}, ctx.Err()
			if err == nil {
				made, err = measure(ctx, row, seed)
			}
			if err != nil {
				first, _, _ := strings.Cut(err.Error(), "\n")
				r.Say("not-run", "%s with seed %d: %s", row.name, seed, first)
				errs = append(errs, err)
				continue
			}
			cells = append(cells, cell{row.name, seed, made})
			c.add(r, cells[len(cells)-1])
		}
	}
	c.compare(r, cells)
	return errors.Join(errs...)
}

// add adds a cell's figures.
func (c ModesConfig) add(r *Report, x cell) {
	var names []string
	var figures []float64
	for unit := range strings.FieldsSeq(cellUnits) {
		if figure, ok := x.figures[unit]; ok {
			names, figures = append(names, unit), append(figures, figure)
		}
	}
	r.Add(int(x.seed-1), c.figure(x.row), strings.Join(names, " "), figures...)
}

// compare adds what each row's figures are beside those of others, in the same seed.
func (c ModesConfig) compare(r *Report, cells []cell) {
	for _, row := range c.rows() {
		ratio := func(other, unit, what string) { r.Ratio(c.figure(row.name), c.figure(other), unit, what) }
		if row.mode == referenceRow {
			continue
		}
		ratio(referenceRow, "loss", "dp")
		ratio(referenceRow, "sent-B", "dp")
		if row.is(muon) {
			ratio(muonReferenceRow, "loss", "dp-muon")
		}
		if row.name != syncRow {
			ratio(syncRow, "loss", "sync")
			ratio(syncRow, "payload-B", "sync")
			ratio(syncRow, "peak-B", "sync")
		}
		if row.bad > 0 {
			ratio(row.clean(), "loss", "clean")
		}
	}
	for _, x := range cells {
		i := slices.IndexFunc(cells, func(y cell) bool { return y.row == slowSyncRow && y.seed == x.seed })
		if row, _ := parseRow(x.row); i < 0 || x.row == slowSyncRow || !row.is(slow) {
			continue
		}
		if ratio, ok := race(x.curve, cells[i].curve); ok {
			r.Add(int(x.seed-1), c.figure(x.row), "sec-to-loss-x-sync", ratio)
		}
	}
}
