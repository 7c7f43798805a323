package modes

import (
	"context"
	"errors"
	"runtime"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// Run measures everything. If a row fails, it goes on with the next, and the error says so at the
// end.
func Run(ctx context.Context, c Config, r *bench.Report) error {
	c.Model.Config = c.Model.WithDefaults()
	r.Say("model", "%s, %d parameters", &c.Model, c.Model.Parameters())
	r.Say("training", "%d rounds of %d inner steps of %v, on %d cores", c.Rounds, c.InnerSteps, c.StepTime,
		runtime.NumCPU())
	r.Say("links", "%s", c.Links())
	w, err := warmStart(ctx, c)
	if err != nil {
		return err
	}
	r.Say("warm-start", "%d data-parallel steps, held-out loss %.4f", c.WarmSteps, w.loss)
	// a ring all-reduce of float32 gradients at every step sends so much from each peer
	n := uint64(c.Peers)
	gradients := float64(2 * (n - 1) * 4 * c.Model.Parameters() * c.Rounds * c.InnerSteps / n)
	var errs []error
	for turn := range int(c.Seeds) {
		_, loss, err := w.train(ctx, c, uint64(turn+1), c.Rounds, c.InnerSteps)
		if err != nil {
			return err
		}
		r.Add(turn, c.name(referenceRow), "loss sent-B", loss, gradients)
		var slowSync []point
		for _, row := range c.rows() {
			curve, err := c.train(ctx, r, row, w, turn)
			errs = append(errs, err)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if ratio, ok := race(curve, slowSync); ok {
				r.Add(turn, c.name(row.name), "sec-to-loss-x-sync", ratio)
			}
			if row.name == slowSyncRow {
				slowSync = curve
			}
		}
	}
	for _, row := range c.rows() {
		r.Ratio(c.name(row.name), c.name(referenceRow), "loss", "dp")
		if row.name != syncRow {
			r.Ratio(c.name(row.name), c.name(syncRow), "loss", "sync")
			r.Ratio(c.name(row.name), c.name(syncRow), "peak-B", "sync")
		}
	}
	return errors.Join(errs...)
}
