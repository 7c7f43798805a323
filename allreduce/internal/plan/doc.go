// Package plan has the pure half of the all-reduce: what peers must decide alike from a run's
// parameters and a [slot.Plan], without goroutines, clock, network or disk.
//
//	params.go      Params, the division of a vector among owners, and Check of a plan from the network
//	grid.go        Grid: how a vector is cut into frames
//	aggregator.go  Aggregation: how the frames of all contributors become one (mean, trimmed mean, median)
//	ringorder.go   Schedule: rotation or ring, and the order of a ring, by the cost of each (cost.go)
//	shares.go      how much of a vector each owner gets, by its uplink; relayed.go spares relays
//	estimate.go    how long a plan's bytes take on the measured links
package plan
