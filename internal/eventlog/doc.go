// Package eventlog writes events to a file, one JSON object a line, and reads such files while they
// grow.
//
// Writer appends events as they happen; every line reaches the file in one write, so a reader never
// sees lines mixed. A file that is full is renamed and begun anew (Rotation). Follower gives the
// lines that were added since it was last asked, over all rotations, and Parse makes a Line of one.
package eventlog
