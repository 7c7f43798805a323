//go:build unix

package attach

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// unnamed makes a file of that many bytes in a directory, opens it once more for reading alone, and
// removes its name. An empty dir is the folder for temporary files. All bytes are written: where
// the disk or the tmpfs is full that is an error here, and later it would be a SIGBUS.
func unnamed(ctx context.Context, dir string, size uint64) (f, read *os.File, err error) {
	if f, err = os.CreateTemp(dir, "p2pdiloco-vectors-"); err != nil {
		return nil, nil, err
	}
	read, err = os.Open(f.Name())
	err = errors.Join(err, os.Remove(f.Name()))
	if err == nil {
		err = zeros(ctx, f, size)
	}
	if err == nil {
		return f, read, nil
	}
	if read != nil {
		err = errors.Join(err, read.Close())
	}
	return nil, nil, errors.Join(fmt.Errorf("%d MiB of memory to share with the trainer: %w", size>>20, err), f.Close())
}

// zeros writes so many of them, or stops when ctx ends.
func zeros(ctx context.Context, f *os.File, size uint64) error {
	some := make([]byte, 1<<20)
	for size > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(size, uint64(len(some)))
		if _, err := f.Write(some[:n]); err != nil {
			return err
		}
		size -= n
	}
	return nil
}
