// Package statedir chooses the data directory of a peer for which the user named none: one for each
// run and peer, under the user's state directory, kept over restarts. Peers that run side by side
// on one machine get one each: a lock file beside a directory says whether it is taken. A process
// that was given such a directory by name holds the lock in it alone, which counts as well.
//
// Dirs lists the data directories of this host's peers, however they were made: those chosen here,
// those that the Python package chooses, and those that a user named, of which Note keeps the
// paths.
package statedir
