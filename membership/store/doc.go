// Package store keeps the log of the ledger on disk: everything that a peer must not forget before
// others hear of it (see wire.Entry). The log is one file, which is compacted now and then. All
// certified records are in another one, which only grows; the log says where each of them is.
//
// [Open] locks the data directory, reads the log, cuts off a torn end and counts the opening. Save
// appends entries with one write and one sync; after a crash they are there wholly or not at all.
// Load returns what the log amounts to. The first error of Save is final: the driver stops, and the
// peer starts again on what is on disk. [Read] reads a log without a lock, beside a running peer.
//
// format.go has the layout of both files, reads frames and tells a torn end from damage, replay.go
// folds the frames into a state (state.go), file.go writes, and records.go reads and writes the
// records.
package store

import "errors"

// Reasons why a store cannot be opened or written. In addition, disk.ErrLocked means that another
// process uses the directory.
var (
	ErrForeign = errors.New("not a ledger log of this program")
	ErrRun     = errors.New("the data directory belongs to another run")
	ErrCorrupt = errors.New("the ledger on disk is damaged")

	// errTorn means that the last write did not reach the disk whole. It was never acknowledged, so
	// nothing was sent on the strength of it, and it may be cut off.
	errTorn = errors.New("torn end")
)
