package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

func measured(n uint64) SlotMetrics {
	return SlotMetrics{
		Time: time.Unix(int64(n), 0).UTC(), Slot: n, Height: n + 1, Loss: new(2.5), HeldOut: new(3.0),
		HeldOutSlot: n - 1,
		Tokens:      512, SlotTokens: 2048, RunTokens: 2048 * n, Members: 4, Contributors: 4, Seconds: 1, Norm: 0.5,
	}
}

func read(t *testing.T, path string) []SlotMetrics {
	t.Helper()
	all, err := ReadHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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

// full is a disk on which no new file has room.
type full struct{ disk.FS }

func (full) CreateTemp(string, string) (disk.File, error) { return nil, fmt.Errorf("no space left") }

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
	h = NewHistory(full{disk.OS}, path)
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

// A line has what changed since the line before.
func TestSlotMetricsAreDifferences(t *testing.T) {
	before := Status{Slot: 3, Sent: 100, Received: 10, Uptime: 10 * time.Second, Training: 8 * time.Second}
	before.Stats.Tokens = 1000
	s := Status{
		Slot: 4, Sent: 600, Received: 40, Uptime: 20 * time.Second, Training: 14 * time.Second, Stall: 2 * time.Second,
		Members: []MemberStatus{{}, {Self: true, Contribution: &ContributionStatus{StepTime: time.Second / 4}}},
	}
	s.Stats = StatsStatus{Tokens: 6000, Weight: 20000, Contributors: 2, TrainLoss: new(2.5)}
	m := s.SlotMetricsSince(before, 90000, time.Unix(5, 0))
	if m.Slot != 4 || m.Tokens != 5000 || m.SlotTokens != 20000 || m.RunTokens != 90000 || *m.TokensPerSecond != 500 ||
		m.Members != 2 || m.Contributors != 2 || m.Seconds != 10 || m.TrainingSeconds != 6 || m.StalledSeconds != 2 ||
		*m.StalledShare != 0.25 || *m.StepSeconds != 0.25 || m.BytesSent != 500 || m.BytesReceived != 30 ||
		*m.Loss != 2.5 || m.HeldOut != nil {
		t.Errorf("%+v", m)
	}
	if idle := before.SlotMetricsSince(before, 0, time.Unix(5, 0)); idle.StalledShare != nil ||
		idle.TokensPerSecond != nil {
		t.Errorf("of no time: %+v", idle)
	}
}

// The schema has the keys that a line has where all is known, and demands those that each has.
func TestSchemaOfALine(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "metrics.schema.json"))
	noError(t, err)
	var schema struct {
		Properties map[string]any
		Required   []string
	}
	noError(t, json.Unmarshal(text, &schema))
	keys := func(m SlotMetrics) []string {
		line, fields := []byte(nil), map[string]any{}
		line, err = json.Marshal(m)
		noError(t, err)
		noError(t, json.Unmarshal(line, &fields))
		return slices.Sorted(maps.Keys(fields))
	}
	all := SlotMetrics{HeldOutSlot: 1}
	for _, v := range []**float64{
		&all.Loss, &all.HeldOut, &all.TokensPerSecond, &all.StalledShare, &all.StepSeconds, &all.OwnNorm, &all.Cosine,
	} {
		*v = new(1.0)
	}
	slices.Sort(schema.Required)
	if got, want := slices.Sorted(maps.Keys(schema.Properties)), keys(all); !slices.Equal(got, want) {
		t.Errorf("it has the keys %v, a line has %v", got, want)
	}
	if want := keys(SlotMetrics{}); !slices.Equal(schema.Required, want) {
		t.Errorf("it demands %v, each line has %v", schema.Required, want)
	}
}
