package disk

import (
	"context"
	"io"
)

// atOnce is how much is read or written between two looks at whether it is still wanted.
const atOnce = 4 << 20

// until is w for as long as ctx lasts: after that its writes fail.
type until struct {
	ctx context.Context
	w   io.Writer
}

func (u *until) Write(b []byte) (n int, err error) {
	for err == nil && len(b) > n {
		if err = u.ctx.Err(); err == nil {
			var more int
			more, err = u.w.Write(b[n:min(len(b), n+atOnce)])
			n += more
		}
	}
	return n, err
}

// FSUntil is a file system for as long as ctx lasts: after that, reads of its files fail.
func FSUntil(ctx context.Context, fsys FS) FS { return fsUntil{fsys, ctx} }

type fsUntil struct {
	FS
	ctx context.Context
}

func (u fsUntil) OpenFile(name string, flag int) (File, error) {
	f, err := u.FS.OpenFile(name, flag)
	return fileUntil{f, u.ctx}, err
}

type fileUntil struct {
	File
	ctx context.Context
}

func (f fileUntil) ReadAt(b []byte, at int64) (n int, err error) {
	for {
		if err = f.ctx.Err(); err != nil {
			return n, err
		}
		var more int
		more, err = f.File.ReadAt(b[n:min(len(b), n+atOnce)], at+int64(n))
		n += more
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

func (f fileUntil) Read(b []byte) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.File.Read(b[:min(len(b), atOnce)])
}
