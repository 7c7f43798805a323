//go:build race

package p2pdiloco

// raced says that the race detector is on: tests have one CPU then (internal/onecpu), and are some times slower.
const raced = true
