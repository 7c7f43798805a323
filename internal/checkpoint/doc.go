// Package checkpoint keeps on disk what a peer must not lose and others may ask for: states (the
// anchor and the vectors of the outer optimizer) and the outcomes of slots (the reduced bytes that
// lead from one state to the next).
//
// Open a [Store] with the shape that the run spec fixes. Save states and PutOutcome outcomes, start
// from LoadNewest, and Prune after a checkpoint's root has been certified. All methods may be
// called from any goroutine.
//
// # Roots
//
// The root of a state is the plain BLAKE3-256 of its encoding (state.go), which is also the content
// of its file. So the state root in a certified record is enough to check any part of a checkpoint,
// from disk or from a stranger: AppendSlice returns a range together with the tree hashes that tie
// it to the root (bao, tree.go). The tree over a state takes 64 bytes for each GroupBytes.
// It is kept in memory. A missing tree is made anew, and that checks the file at the same time.
//
// # Files
//
// Every file appears whole or not at all: it is written under a temporary name, synced and renamed,
// and the directory is synced (folder.go). Most of an outcome is written before it is agreed, when
// its frames come (begun.go). What Prune takes away is written again: it gets a temporary name, and
// its old one is gone for good before a byte changes. Another peer that is just reading it gets
// bytes that fail their check, as after a loss. Nothing is believed when it is read: states are
// checked against their root, outcomes against the roots of their segments. A file that fails is
// named in a CorruptError and in the log, set aside with the suffix ".corrupt", and no longer
// listed or served. Bytes are checked once more before they are served. An incoming state
// (partial.go) has a temporary name until it is whole.
//
// # Parts
//
// A Store composes parts that own their state: the folder, the states, the outcomes, the incoming
// state, and the requests of other peers, which Prune respects.
package checkpoint
