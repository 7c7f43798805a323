package disk

import (
	"context"
	"io"
)

// atOnce is how much is read or written between two looks at whether it is still wanted.
const atOnce = 4 << 20

// Until is w for as long as ctx lasts: after that its writes fail.
func Until(ctx context.Context, w io.Writer) io.Writer { return &until{ctx, w} }

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

// readerUntil is r for as long as ctx lasts: after that its reads fail.
type readerUntil struct {
	ctx context.Context
	r   io.ReaderAt
}

func (u *readerUntil) ReadAt(b []byte, at int64) (n int, err error) {
	for {
		if err = u.ctx.Err(); err != nil {
			return n, err
		}
		var more int
		more, err = u.r.ReadAt(b[n:min(len(b), n+atOnce)], at+int64(n))
		n += more
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// FSUntil is a file system for as long as ctx lasts: after that, reads of its files fail.
func FSUntil(ctx context.Context, fsys FS) FS { return fsUntil{fsys, ctx} }

type fsUntil struct {
	FS
	ctx context.Context
}

func (u fsUntil) OpenFile(name string, flag int) (File, error) {
	f, err := u.FS.OpenFile(name, flag)
	if err != nil {
		return nil, err
	}
	return &fileUntil{f, readerUntil{u.ctx, f}}, nil
}

type fileUntil struct {
	File
	at readerUntil
}

func (f *fileUntil) ReadAt(b []byte, at int64) (int, error) { return f.at.ReadAt(b, at) }

func (f *fileUntil) Read(b []byte) (int, error) {
	if err := f.at.ctx.Err(); err != nil {
		return 0, err
	}
	return f.File.Read(b[:min(len(b), atOnce)])
}
