// Package checkpoint keeps on disk what a peer must not lose and others may ask for: states (the anchor and the outer
// optimizer's vectors) and the outcomes of slots (the reduced bytes that lead from one state to the next).
//
// A state's root is the plain BLAKE3-256 of its encoding (state.go), which is also the content of its file. So a
// certified record's state root is all that is needed to check any part of a checkpoint, from disk or from a stranger:
// AppendSlice gives a range together with the tree hashes that tie it to the root (bao). The tree over a state takes 64 bytes
// for each GroupBytes; it is kept in memory and made anew where it is missing, which checks the file at the same time.
//
// Every file appears whole or not at all: it is written under a temporary name, synced, renamed, and the directory is
// synced. Nothing is believed when it is read: states are checked against their root, outcomes against the roots of
// their segments. A file that fails is named in a CorruptError and the log, set aside with the suffix ".corrupt", and no
// longer listed or served. What is served is checked once more on its way out. Only a state on its way in (partial.go) grows in
// its place, over several processes if need be.
//
// Callers Open a store with the shape that the run spec fixes, Save states and PutOutcome outcomes, start from
// LoadNewest, and Prune after a checkpoint's root has been certified. All methods may be called from any goroutine.
package checkpoint
