package disk

import "errors"

// ErrLocked is what FS.Lock returns while another process has the lock.
var ErrLocked = errors.New("in use by another process")
