//go:build race

package p2pdiloco

// raced says that the race detector is on: with synctest it leaves one thread to a test, and makes that some times slower.
const raced = true
