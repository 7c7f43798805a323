package allreduce

import "github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"

// What callers of this package need of package plan, under one name.
type (
	Params     = plan.Params
	Aggregator = plan.Aggregator
	Schedule   = plan.Schedule
	Estimate   = plan.Estimate
)

// The aggregators and schedules of package plan.
const (
	Mean        = plan.Mean
	TrimmedMean = plan.TrimmedMean
	Median      = plan.Median
	Auto        = plan.Auto
	Rotation    = plan.Rotation
	Ring        = plan.Ring
)

// Tolerated is the number of bad peers whose values cannot reach the outcome; see [plan.Tolerated].
func Tolerated(a Aggregator, trimPermille, n int) int { return plan.Tolerated(a, trimPermille, n) }
