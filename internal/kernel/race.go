//go:build race

package kernel

// raced says that the race detector is built in. It does not see what assembly reads and writes, so
// plain loops are the default then.
const raced = true
