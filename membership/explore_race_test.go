//go:build race

package membership

// worldsByDefault is small here: the explorer has one goroutine, and the race detector makes it ten times slower.
const worldsByDefault = 3_000

// churnMost is the largest run in TestChurn, for the same reason.
const churnMost = 64
