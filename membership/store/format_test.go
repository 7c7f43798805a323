package store

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// written is a log and where its frames end.
func written(t testing.TB) (b []byte, ends []int, states []wire.Saved) {
	t.Helper()
	b, _, ends, states = writtenBoth(t)
	return b, ends, states
}

// writtenBoth is that with the file of the records.
func writtenBoth(t testing.TB) (b, records []byte, ends []int, states []wire.Saved) {
	t.Helper()
	s := open(t, t.TempDir())
	note := func() { ends, states = append(ends, int(s.end())), append(states, load(t, s)) }
	note()
	for _, entries := range newLedgerScript().story() {
		save(t, s, entries)
		note()
	}
	return contents(t, s.path), contents(t, s.mu.records.path), ends, states
}

// openBytes opens a store on a log of these bytes, beside its records.
func openBytes(t testing.TB, dir string, b, records []byte, log io.Writer) (wire.Saved, error) {
	t.Helper()
	write(t, filepath.Join(dir, recordsName), records)
	write(t, filepath.Join(dir, logName), b)
	s, err := Open(disk.OS, dir, run, 0, rand.Reader, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		return wire.Saved{}, err
	}
	defer func() { _ = s.Close() }()
	return load(t, s), nil
}

// readBytes reads a log as openBytes does, without a disk: it says how much of it is whole, and
// whether a torn end follows.
func readBytes(b []byte) (saved wire.Saved, whole int, torn bool, err error) {
	log, err := readHead(logName, bytes.NewReader(b), int64(len(b)), run)
	if err != nil {
		return saved, 0, false, err
	}
	torn, err = log.replay()
	return log.state.saved(), int(log.frames.at), torn, err
}

// wholeAt is the state and the end of the last frame that n bytes of a log hold whole.
func wholeAt(n int, ends []int, states []wire.Saved) (want wire.Saved, whole int) {
	// before any save
	want.Incarnation, want.Tip, whole = states[0].Incarnation, states[0].Tip, headSize
	for i, end := range ends {
		if end <= n {
			want, whole = states[i], end
		}
	}
	return want, whole
}

func TestTornTailAtEveryByte(t *testing.T) {
	b, ends, states := written(t)
	for n := headSize; n <= len(b); n++ {
		want, whole := wholeAt(n, ends, states)
		got, end, torn, err := readBytes(b[:n])
		if err != nil || end != whole || torn != (n > whole) || !sameButBoot(got, want) {
			t.Fatalf("%d of %d bytes: %v, read to %d of %d\ngot  %+v\nwant %+v", n, len(b), err, end, whole, got, want)
		}
	}
}

// Some file systems grow a file before its bytes arrive: the last frame, or its end, is zeros.
func TestZeroedTail(t *testing.T) {
	b, ends, states := written(t)
	last := ends[len(ends)-2]
	for n := last; n < len(b); n++ {
		zeros := append(bytes.Clone(b[:n]), make([]byte, len(b)-n)...)
		got, end, torn, err := readBytes(zeros)
		if err != nil || end != last || !torn || !sameButBoot(got, states[len(states)-2]) {
			t.Fatalf("zeros from %d, the last frame starts at %d: %v, read to %d", n, last, err, end)
		}
	}
}

// On a disk: the torn end is cut off and logged, once, and what is saved next stays.
func TestTornTailIsCutOff(t *testing.T) {
	b, records, ends, states := writtenBoth(t)
	for _, n := range []int{ends[3] + 1, ends[6] - 1, len(b) - frameTail} {
		want, whole := wholeAt(n, ends, states)
		var log bytes.Buffer
		dir := t.TempDir()
		got, err := openBytes(t, dir, b[:n], records, &log)
		if err != nil || !sameButBoot(got, want) {
			t.Fatalf("%d bytes: %v\ngot  %+v\nwant %+v", n, err, got, want)
		}
		if line := fmt.Sprintf("offset=%d bytes=%d", whole, n-whole); !strings.Contains(log.String(), line) {
			t.Errorf("logged %q, not %q", log.String(), line)
		}
		s := open(t, dir)
		put(t, s, wire.EntryOffer{Seq: 77})
		if got := load(t, reopen(t, s)); got.OfferSeq != 77 || got.Boot != want.Boot+3 {
			t.Errorf("after the cut: %+v", got)
		}
	}
}

func TestTornHead(t *testing.T) {
	b, _, _ := written(t)
	for n := range headSize {
		if _, _, _, err := readBytes(b[:n]); !errors.Is(err, ErrForeign) && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("%d bytes of the head: %v", n, err)
		}
	}
}

// A changed byte is never taken for a torn end: that would lose votes that were given.
func TestFlippedByteAnywhere(t *testing.T) {
	b, ends, _ := written(t)
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= byte(1 + i%255)
		if bad[i] == 0 && i >= ends[len(ends)-2] {
			bad[i]++ // in the last frame a zero is a hole
		}
		if _, _, _, err := readBytes(bad); !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrForeign) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
	}
	b[len(b)/2] ^= 1
	dir := t.TempDir()
	_, err := openBytes(t, dir, b, nil, io.Discard)
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), filepath.Join(dir, logName)+" at byte ") {
		t.Errorf("the error does not say where: %v", err)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, logName)); err != nil || !bytes.Equal(kept, b) {
		t.Error("the damaged file was changed")
	}
}

func TestSplicedLogs(t *testing.T) {
	dir := t.TempDir()
	b, ends, _ := written(t)
	other, otherEnds, _ := written(t)
	for name, bad := range map[string][]byte{
		"a frame left out":        append(bytes.Clone(b[:ends[1]]), b[ends[2]:]...),
		"a frame twice":           append(bytes.Clone(b[:ends[2]]), b[ends[1]:]...),
		"a frame of another log":  append(bytes.Clone(b[:ends[1]]), other[otherEnds[1]:]...),
		"the end of a compaction": append(bytes.Clone(b), b[headSize:]...),
	} {
		if _, err := openBytes(t, dir, bad, nil, io.Discard); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Any bytes behind a sound head are refused, cut off, or a log; never a panic, never much memory.
func FuzzLoad(f *testing.F) {
	b, ends, _ := written(f)
	head, sum := bytes.Clone(b[:headSize]), logSum(b[headSize-sumSize:headSize])
	f.Add(b[headSize:], false)
	for _, end := range ends {
		f.Add(b[headSize:end], false)
	}
	for _, entries := range newLedgerScript().story() {
		f.Add(wire.AppendEntry(nil, entries[0]), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, framed bool) {
		log := append(bytes.Clone(head), b...)
		if framed { // past the checksums, to the parsers
			log, _ = appendFrame(bytes.Clone(head), sum, b)
		}
		if read, err := readHead(logName, bytes.NewReader(log), int64(len(log)), run); err != nil {
			t.Fatal(err)
		} else {
			_, _ = read.replay()
		}
	})
}
