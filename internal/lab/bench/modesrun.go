package bench

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// RunModes measures all cells that the folder does not have. If one fails, it goes on with the
// next, and the error says so at the end.
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

// measurer trains a row with a seed.
type measurer func(ctx context.Context, row row, seed uint64) (result, error)

// fill has measure make the cells that are not there yet, adds the figures of all, and says which
// there are none of.
func (c ModesConfig) fill(ctx context.Context, r *Report, measure measurer) error {
	known, err := readCells(c.cells(), c.flags())
	if err != nil {
		return err
	}
	var cells []cell
	var errs []error
	for seed := uint64(1); seed <= c.Seeds; seed++ {
		for _, row := range c.rows() {
			x, err := c.obtain(ctx, known, row, seed, measure)
			if err != nil {
				first, _, _ := strings.Cut(err.Error(), "\n")
				r.Say("not-run", "%s with seed %d: %s", row.name, seed, first)
				errs = append(errs, err)
				continue
			}
			cells = append(cells, x)
			c.add(r, x)
		}
	}
	c.compare(r, cells)
	return errors.Join(errs...)
}

// obtain returns the cell of a row and a seed, which is measured if it is not known.
func (c ModesConfig) obtain(ctx context.Context, known []cell, row row, seed uint64, measure measurer) (cell, error) {
	if i := slices.IndexFunc(known, func(x cell) bool { return x.is(row.name, seed) }); i >= 0 {
		return known[i], nil
	}
	if err := ctx.Err(); err != nil {
		return cell{}, err
	}
	x := cell{Flags: c.flags(), Row: row.name, Seed: seed}
	var err error
	if x.result, err = measure(ctx, row, seed); err == nil {
		err = x.keep(c.cells())
	}
	return x, err
}

// add adds a cell's figures.
func (c ModesConfig) add(r *Report, x cell) {
	var names []string
	var figures []float64
	for unit := range strings.FieldsSeq(cellUnits) {
		if figure, ok := x.Figures[unit]; ok {
			names, figures = append(names, unit), append(figures, figure)
		}
	}
	r.Add(int(x.Seed-1), c.figure(x.Row), strings.Join(names, " "), figures...)
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
		i := slices.IndexFunc(cells, func(y cell) bool { return y.is(slowSyncRow, x.Seed) })
		if row, _ := parseRow(x.Row); i < 0 || x.Row == slowSyncRow || !row.is(slow) {
			continue
		}
		if ratio, ok := race(x.Curve, cells[i].Curve); ok {
			r.Add(int(x.Seed-1), c.figure(x.Row), "sec-to-loss-x-sync", ratio)
		}
	}
}
