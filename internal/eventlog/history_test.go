package eventlog

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

// reading is what the lines of a history are here.
type reading struct {
	Time time.Time
	Slot uint64
	Loss *float64 `json:",omitempty"`
}

func measured(n uint64) reading { return reading{time.Unix(int64(n), 0).UTC(), n, new(2.5)} }

func read(t *testing.T, path string) []reading {
	t.Helper()
	all, err := ReadHistory[reading](path)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What was written is read again, also over a restart, and a line that a crash cut off costs itself
// alone.
func TestHistoryOutlivesAProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	if all := read(t, path); len(all) != 0 {
		t.Errorf("of nothing: %+v", all)
	}
	for life := range uint64(3) {
		h := NewHistory(disk.OS, path)
		for n := range uint64(4) {
			noError(t, h.Add(measured(10*life+n)))
		}
		noError(t, h.Close())
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		noError(t, err)
		_, err = f.WriteString(`{"slot":99,"time":"20`)
		noError(t, err)
		noError(t, f.Close())
	}
	all := read(t, path)
	if len(all) != 12 || all[11].Slot != 23 || *all[4].Loss != 2.5 || !all[5].Time.Equal(time.Unix(11, 0)) {
		t.Errorf("read: %+v", all)
	}
	info, err := os.Stat(path)
	if noError(t, err); info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
}

// A history is bounded in lines. The newest slots stay, and of older ones fewer and fewer, up to
// the first.
func TestHistoryIsThinned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	h := NewHistory(disk.OS, path)
	defer h.Close()
	const slots = 40_000
	for n := range uint64(slots) {
		if err := h.Add(measured(n)); err != nil || h.lines > historyLines || h.bytes > historyBytes {
			t.Fatalf("slot %d: %d lines, %d bytes, %v", n, h.lines, h.bytes, err)
		}
	}
	all := read(t, path)
	if len(all) != h.lines || len(all) < historyLines/2 || all[0].Slot != 0 {
		t.Fatalf("%d lines, %d were counted; the first is of slot %d", len(all), h.lines, all[0].Slot)
	}
	for i, m := range all[len(all)-historyLines/2:] {
		if m.Slot != uint64(slots-historyLines/2+i) {
			t.Fatalf("of the newest, line %d is of slot %d", i, m.Slot)
		}
	}
	var gap uint64
	for i := 1; i < len(all); i++ {
		now := all[i].Slot - all[i-1].Slot
		if gap == 0 {
			gap = now
		}
		if now > 2*gap || now == 0 {
			t.Fatalf("slots %d and %d are %d apart, those before %d", all[i-1].Slot, all[i].Slot, now, gap)
		}
		gap = min(gap, now)
	}
	again := NewHistory(disk.OS, path) // counts the same
	defer again.Close()
	if noError(t, again.open()); again.lines != h.lines || again.bytes != h.bytes {
		t.Errorf("%d lines and %d bytes, it was %d and %d", again.lines, again.bytes, h.lines, h.bytes)
	}
}

// A file that is too long by bytes, full of what is no line, is thinned, too.
func TestHistoryIsBoundedInBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.jsonl")
	noError(t, os.WriteFile(path, []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", historyBytes/100)), 0o600))
	h := NewHistory(disk.OS, path)
	defer h.Close()
	noError(t, h.Add(measured(7)))
	if all := read(t, path); len(all) != 1 || all[0].Slot != 7 {
		t.Errorf("%d lines", len(all))
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 1<<10 {
		t.Errorf("%v, %v", info, err)
	}
}

// fullDisk is a disk on which no new file has room.
type fullDisk struct{ disk.FS }

func (fullDisk) CreateTemp(string, string) (disk.File, error) {
	return nil, fmt.Errorf("no space left")
}

// A full disk costs the line. What was there stays, and the next line comes when there is room.
func TestAFullDiskCostsTheLine(t *testing.T) {
	dir := t.TempDir()
	noError(t, os.Symlink("/dev/full", filepath.Join(dir, "metrics.jsonl")))
	h := NewHistory(disk.OS, filepath.Join(dir, "metrics.jsonl"))
	for range 2 {
		if err := h.Add(measured(1)); err == nil || strings.Contains(err.Error(), "events") {
			t.Errorf("a full device: %v", err)
		}
	}
	noError(t, h.Close())

	path := filepath.Join(dir, "others.jsonl")
	h = NewHistory(fullDisk{disk.OS}, path)
	defer h.Close()
	for n := range uint64(historyLines) {
		noError(t, h.Add(measured(n)))
	}
	for range 2 {
		if err := h.Add(measured(historyLines)); err == nil || len(read(t, path)) != historyLines {
			t.Errorf("no room to be thinned in: %v, %d lines", err, len(read(t, path)))
		}
	}
	h.fs = disk.OS
	noError(t, h.Add(measured(historyLines)))
	if all := read(t, path); all[len(all)-1].Slot != historyLines || len(all) != h.lines {
		t.Errorf("then it has %d lines", len(all))
	}
}
