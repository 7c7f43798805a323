//go:build !race

package membership

// worldsByDefault bounds each exploration of a test run.
const worldsByDefault = 30_000

// churnMost is the largest run in TestChurn.
const churnMost = 500
