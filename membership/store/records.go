package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// recordFile holds all certified records, each in a frame of its own behind the head of its log. It
// only grows: the log says where in it each record of the chain is (wire.EntryRecord), after the
// record is durable. So what no entry of the log points at was never acknowledged.
type recordFile struct {
	path  string
	file  disk.File
	end   int64
	sum   logSum // of the head; all frames carry it
	added []byte // to be written
}

// open opens the file of a log that points at these records. What lies behind the last of them is
// cut off; that is all of it where there is none.
func (f *recordFile) open(fsys disk.FS, head []byte, sum logSum, chain []wire.EntryRecord) (cut int64, err error) {
	f.sum = sum
	flags := os.O_RDWR
	if len(chain) == 0 {
		flags |= os.O_CREATE | os.O_TRUNC
	}
	if f.file, err = fsys.OpenFile(f.path, flags); err != nil {
		return 0, fmt.Errorf("the records of the ledger: %w; %s", err, recordsAdvice)
	}
	if len(chain) == 0 {
		f.end = int64(len(head))
		_, err := f.file.WriteAt(head, 0)
		return 0, errors.Join(err, f.file.Sync())
	}
	info, err := f.file.Stat()
	if err != nil {
		return 0, err
	}
	if f.end, err = f.endOf(chain); err != nil {
		return 0, err
	}
	if cut = info.Size() - f.end; cut > 0 {
		err = f.file.Truncate(f.end)
	}
	return cut, err
}

// endOf returns where the last of these records ends. The newest one need not be the last: an older
// chain that was longer may have been come back to.
func (f *recordFile) endOf(chain []wire.EntryRecord) (end int64, err error) {
	last := chain[0]
	for _, r := range chain {
		if r.Offset > last.Offset {
			last = r
		}
	}
	n, err := frameAt(f.file, f.sum, last)
	if err != nil {
		return 0, damagedRecords(f.path, last, err)
	}
	return int64(last.Offset) + frameSize(n), nil
}

// add takes in a record, which flush writes, and returns its place.
func (f *recordFile) add(c wire.EntryCommit) (offset uint64) {
	offset = uint64(f.end) + uint64(len(f.added))
	f.added, _ = appendFrame(f.added, f.sum, c.Certificate.Append(c.Record.Append(nil)))
	return offset
}

// flush makes what was added durable, with one write and one sync.
func (f *recordFile) flush() error {
	if len(f.added) == 0 {
		return nil
	}
	if _, err := f.file.WriteAt(f.added, f.end); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.end, f.added = f.end+int64(len(f.added)), nil
	return f.file.Sync()
}

// frameAt returns the length of what is in a record's frame.
func frameAt(file io.ReaderAt, sum logSum, at wire.EntryRecord) (n int64, err error) {
	var head [frameHead]byte
	if _, err := file.ReadAt(head[:], int64(at.Offset)); err != nil {
		return 0, err
	}
	before, n, err := parseFrameHead(head[:])
	if err == nil && before != sum {
		err = fmt.Errorf("%w: a record of another log", ErrCorrupt)
	}
	return n, err
}

// readRecord reads the record that an entry of the log points at.
func readRecord(file io.ReaderAt, path string, sum logSum, at wire.EntryRecord) (c wire.Commit, err error) {
	n, err := frameAt(file, sum, at)
	if err != nil {
		return c, damagedRecords(path, at, err)
	}
	frame := make([]byte, frameSize(n))
	if _, err = file.ReadAt(frame, int64(at.Offset)); err != nil {
		return c, damagedRecords(path, at, err)
	}
	payload, _, err := parseFrame(frame)
	if err == nil {
		c, err = wire.ParseKept(payload)
	}
	if err == nil && (c.Record.Height != at.Height || c.Record.Hash() != at.Hash) {
		err = fmt.Errorf("%w: it is another record", ErrCorrupt)
	}
	if err != nil {
		return wire.Commit{}, damagedRecords(path, at, err)
	}
	return c, nil
}

const recordsAdvice = "bring the file back from a backup that has all records, or move ledger.log and " +
	recordsName + " away: this peer then comes back as a new member, once the others have agreed to go on without " +
	"the old one"

// damagedRecords says where the records are damaged and what to do.
func damagedRecords(path string, at wire.EntryRecord, err error) error {
	switch {
	case errors.Is(err, errTorn):
		err = fmt.Errorf("%w: a hole", ErrCorrupt)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = fmt.Errorf("%w: its end is missing", ErrCorrupt)
	}
	return fmt.Errorf("%s at byte %d, the record at height %d: %w; %s", path, at.Offset, at.Height, err, recordsAdvice)
}

// Reading is what a log and its records hold, read beside a peer that may be running on them.
type Reading struct {
	wire.Saved
	path  string
	sum   logSum
	chain []wire.EntryRecord
}

func newReading(dir string, saved wire.Saved, sum logSum, chain []wire.EntryRecord) *Reading {
	return &Reading{saved, filepath.Join(dir, recordsName), sum, chain}
}

// Record implements wire.Records.
func (r *Reading) Record(height uint64) (wire.Commit, error) {
	at, err := place(r.chain, height)
	if err != nil {
		return wire.Commit{}, err
	}
	file, err := os.Open(r.path)
	if err != nil {
		return wire.Commit{}, err
	}
	defer file.Close()
	return readRecord(file, r.path, r.sum, at)
}

func place(chain []wire.EntryRecord, height uint64) (at wire.EntryRecord, err error) {
	if height == 0 || height > uint64(len(chain)) {
		return at, fmt.Errorf("no record at height %d of %d", height, len(chain))
	}
	return chain[height-1], nil
}

func tipOf(run slot.Root, chain []wire.EntryRecord) slot.Root {
	if n := len(chain); n > 0 {
		return chain[n-1].Hash
	}
	return slot.Genesis(run).Hash()
}
