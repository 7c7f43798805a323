package allreduce

import (
	"github.com/p2pdiloco/p2pdiloco/allreduce/internal/plan"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

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

// Aggregators lists all aggregators.
func Aggregators() []Aggregator { return plan.Aggregators() }

// Pieces divides a fragment among the peers that made offers; see [plan.Pieces].
func Pieces(p Params, fragment uint32, offers []slot.Offer) []slot.Piece {
	return plan.Pieces(p, fragment, offers)
}

// Divide gives every element of a plan's vector a living owner; see [plan.Divide].
func Divide(p Params, agreed slot.Plan) []slot.Piece { return plan.Divide(p, agreed) }

// Trim is the number of values that a trimmed mean drops at each end; see [plan.Trim].
func Trim(permille, n int) int { return plan.Trim(permille, n) }

// Tolerated is the number of bad peers whose values cannot reach the outcome; see [plan.Tolerated].
func Tolerated(a Aggregator, trimPermille, n int) int { return plan.Tolerated(a, trimPermille, n) }
