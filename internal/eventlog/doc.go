// Package eventlog writes events to a file, one JSON object a line, and reads such files while they
// grow.
//
// Writer appends events as they happen; every line reaches the file in one write, so a reader never
// sees lines mixed. A file that is full is renamed and begun anew (Rotation). Follower gives the
// lines that were added since it was last asked, over all rotations, and Parse makes a Line of one.
//
// An Outbox writes texts for a program that must not wait for its output. A terminal that is
// stopped, a pipe that nobody reads and a disk that hangs block a write for as long as they like. A
// goroutine of its own writes the texts in their order. A text that finds too many before it is
// left out and counted, and the count stands in the output where the texts are missing.
package eventlog
