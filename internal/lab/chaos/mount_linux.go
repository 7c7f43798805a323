package chaos

import (
	"fmt"
	"syscall"
)

// mountSmall makes a folder a disk of its own, in memory. It needs root.
func mountSmall(dir string, size int) error {
	options := fmt.Sprintf("size=%d,mode=700", size)
	return syscall.Mount("p2pchaos", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, options)
}

func unmountSmall(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
