//go:build race

package nodetest

// Raced says that the race detector is on: tests have one CPU then (internal/onecpu), and are some
// times slower.
const Raced = true
