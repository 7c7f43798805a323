package eventlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// full is the name of a file that was rotated so many times.
func full(path string, times int) string {
	if times == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, times)
}

// open takes the file at path, which gets a mode if it is missing. mu is held, or nobody else has
// w yet.
func (w *Writer) open(mode fs.FileMode) error {
	f, err := os.OpenFile(w.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if !info.Mode().IsRegular() { // a pipe or a terminal
		w.rotation = Rotation{}
	}
	if info.Size() == 0 && mode != 0o600 && info.Mode().IsRegular() {
		if err := f.Chmod(mode); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	w.mu.f, w.mu.size, w.mu.torn = f, info.Size(), false
	return nil
}

// rotate begins the file anew, with the mode that it had. mu is held. After an error the old file
// goes on. If another process has rotated the file, or somebody has moved it, w takes the new one.
func (w *Writer) rotate() error {
	old := w.mu.f
	ours, err := old.Stat()
	if err != nil {
		return w.notRotated(err)
	}
	now, err := os.Stat(w.path)
	if err == nil && os.SameFile(now, ours) {
		err = w.shift()
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return w.notRotated(err)
	}
	if err := w.open(ours.Mode().Perm()); err != nil {
		return w.notRotated(err)
	}
	return old.Close()
}

func (w *Writer) notRotated(err error) error {
	w.mu.size = 0 // it is tried again, but not at each line
	return fmt.Errorf("%w: %w", ErrNotRotated, err)
}

// shift makes room for the name of the file, and removes full files beyond those that are kept.
func (w *Writer) shift() error {
	for i := max(1, w.rotation.Keep); os.Remove(full(w.path, i)) == nil; i++ {
	}
	for i := w.rotation.Keep - 1; i >= 0; i-- {
		if err := os.Rename(full(w.path, i), full(w.path, i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if w.rotation.Keep == 0 {
		return os.Remove(w.path)
	}
	return nil
}

// next is the file to read after one that has come to its end: the one that was begun when it was
// full. It is nil while there is none. A reader that was away for longer than full files are kept
// goes on with the oldest that there is.
func next(path string, ended *os.File) (*os.File, error) {
	ours, err := ended.Stat()
	if err != nil {
		return nil, err
	}
	for {
		at, oldest, err := place(path, ours)
		switch {
		case err != nil || at == 0:
			return nil, err
		case at < 0:
			at = oldest + 1
		}
		f, err := os.Open(full(path, at-1))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // the file is just being rotated
		}
		if err != nil {
			return nil, err
		}
		// the files may have been rotated since
		again, last, err := place(path, ours)
		if err == nil && (again == at || again < 0 && last == oldest) {
			return f, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
	}
}

// place is how many times a file was rotated, -1 if it is gone, and how many times the oldest was.
// While files are renamed, one name among them is missing: only two of them in a row are the end.
// Files move to higher numbers alone, so a search that counts upwards does not pass one unseen.
func place(path string, of os.FileInfo) (at, oldest int, err error) {
	at = -1
	for i, missing := 0, 0; missing < 2; i++ {
		info, err := os.Stat(full(path, i))
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		missing, oldest = 0, i
		if at < 0 && os.SameFile(info, of) {
			at = i
		}
	}
	return at, oldest, nil
}
