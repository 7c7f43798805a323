package replica

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

const (
	feedbackName  = "feedback"
	feedbackMagic = "p2pdiloco debts1"
	feedbackHead  = len(feedbackMagic) + 2*len(slot.Root{}) + 8 // bytes
)

// feedbackFile keeps on disk what a peer owes (feedback): one file, of the newest checkpoint, with
// the state's slot and root. A restart takes up an older checkpoint and applies the outcomes since.
// It takes up the debt when it comes to the state that the debt belongs to; if it never does, the
// debt is dropped.
//
//	magic | run ID root | slot u64 | state root | fragments, float32 | SHA-256 of all before
//
// A nil feedbackFile is that of a codec that loses nothing.
type feedbackFile struct {
	fs       disk.FS
	path     string
	run      slot.Root
	feedback *feedback
	log      *slog.Logger

	saved  feedbackAt // on disk; zero: nothing
	loaded [][]float32
}

// feedbackAt says which state a debt belongs to.
type feedbackAt struct {
	slot uint64
	root slot.Root
}

// openFeedbackFile reads the file in a folder. One that cannot be used is reported in the log, and
// is done without.
func openFeedbackFile(cfg Config, f *feedback) *feedbackFile {
	if f == nil {
		return nil
	}
	d := &feedbackFile{
		fs: cfg.FS, path: filepath.Join(cfg.Dir, feedbackName), run: cfg.Run.ID, feedback: f, log: cfg.Logger,
	}
	if d.fs == nil {
		d.fs = disk.OS
	}
	err := d.load()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.drop(err.Error())
	}
	return d
}

func (d *feedbackFile) drop(why string) {
	d.loaded = nil
	d.log.Warn("what encoding lost before the restart is not made up for (error feedback begins at zero)",
		"file", d.path, "why", why)
}

func (d *feedbackFile) load() (err error) {
	file, err := d.fs.OpenFile(d.path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	r := io.TeeReader(bufio.NewReaderSize(file, 1<<20), sum)
	head := make([]byte, feedbackHead)
	if _, err := io.ReadFull(r, head); err != nil {
		return err
	}
	fields := wire.NewReader(head)
	magic, run := string(fields.Take(len(feedbackMagic))), slot.Root(fields.Take(len(d.run)))
	of := feedbackAt{slot: fields.U64(), root: slot.Root(fields.Take(len(d.run)))}
	if err := fields.Done(); err != nil || magic != feedbackMagic || run != d.run {
		return errors.Join(err, errors.New("it is not of this run"))
	}
	all := make([][]float32, len(d.feedback.sizes))
	for i, n := range d.feedback.sizes {
		all[i] = make([]float32, n)
		if err := readFloats(r, all[i]); err != nil {
			return err
		}
	}
	if err := checkSum(r, sum); err != nil {
		return err
	}
	d.loaded, d.saved = all, of
	return nil
}

// checkSum reads the sum of what was read so far, and the file's end.
func checkSum(r io.Reader, sum hash.Hash) error {
	want, got := sum.Sum(nil), make([]byte, sha256.Size)
	if _, err := io.ReadFull(r, got); err != nil {
		return err
	}
	if n, _ := io.Copy(io.Discard, r); n != 0 || !bytes.Equal(want, got) {
		return errors.New("it is damaged")
	}
	return nil
}

// readFloats fills x with little-endian values.
func readFloats(r io.Reader, x []float32) error {
	var b [4 << 10]byte
	for len(x) > 0 {
		part := x[:min(len(x), len(b)/4)]
		if _, err := io.ReadFull(r, b[:4*len(part)]); err != nil {
			return err
		}
		kernel.GetFloat32s(part, b[:4*len(part)])
		x = x[len(part):]
	}
	return nil
}

// reached takes in the state that is held. It takes up the debt that was loaded if it belongs to
// that, and drops it once that state is past.
func (d *feedbackFile) reached(at Position) {
	if d == nil || d.loaded == nil {
		return
	}
	switch {
	case d.saved == feedbackAt{at.Slot, at.Root}:
		d.feedback.resume(d.loaded)
		d.loaded = nil
		d.log.Info("error feedback goes on where it was", "slot", at.Slot)
	case at.Slot >= d.saved.slot:
		d.drop(fmt.Sprintf("it belongs to state %s after slot %d, and the state after slot %d is %s",
			d.saved.root.Short(), d.saved.slot, at.Slot, at.Root.Short()))
	}
}

// writtenDebt is a debt that is written, but not published. A nil one is nothing.
type writtenDebt struct {
	of   feedbackAt
	file disk.File
	in   *feedbackFile
}

// write writes what is owed at a state, if that is not on disk. The debt does not change meanwhile.
func (d *feedbackFile) write(at Position) (*writtenDebt, error) {
	of := feedbackAt{at.Slot, at.Root}
	if d == nil || d.loaded != nil || d.saved == of {
		return nil, nil
	}
	// package checkpoint removes files of this name that are left
	f, err := d.fs.CreateTemp(filepath.Dir(d.path), "tmp-*")
	if err != nil {
		return nil, err
	}
	w := &writtenDebt{of, f, d}
	if err := d.writeTo(f, of); err != nil {
		w.drop()
		return nil, err
	}
	return w, nil
}

func (w *writtenDebt) drop() {
	if w != nil {
		_ = w.file.Close()
		_ = w.in.fs.Remove(w.file.Name())
	}
}

func (w *writtenDebt) publish() error {
	if w == nil {
		return nil
	}
	err := disk.Publish(w.in.fs, w.file, w.in.path)
	if err == nil {
		w.in.saved = w.of
	}
	return err
}

func (d *feedbackFile) writeTo(f io.Writer, of feedbackAt) error {
	sum := sha256.New()
	w := io.MultiWriter(f, sum)
	head := append([]byte(feedbackMagic), d.run[:]...)
	head = append(wire.AppendU64(head, of.slot), of.root[:]...)
	if _, err := w.Write(head); err != nil {
		return err
	}
	for i, e := range d.feedback.owed() {
		if e == nil {
			e = make([]float32, d.feedback.sizes[i])
		}
		if _, err := w.Write(kernel.Bytes(e)); err != nil {
			return err
		}
	}
	_, err := f.Write(sum.Sum(nil))
	return err
}
