package membership

import "errors"

// Why a store cannot be opened or written; besides disk.ErrLocked, for a directory that another process uses.
var (
	ErrStoreForeign = errors.New("not a ledger log of this program")
	ErrStoreRun     = errors.New("the data directory belongs to another run")
	ErrStoreCorrupt = errors.New("the ledger log is damaged")

	// errTorn: the last write did not reach the disk whole. Nothing was sent on the strength of it, so it may be cut off.
	errTorn = errors.New("torn end")
)
