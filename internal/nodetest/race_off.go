//go:build !race

package nodetest

// Raced says whether the race detector is on.
const Raced = false
