//go:build !unix || aix || solaris

package disk

import "os"

// lock opens the lock file. These systems have no flock: that one process uses a directory is the operator's care here.
func lock(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) }
