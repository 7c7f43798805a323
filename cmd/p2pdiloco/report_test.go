package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
)

// A report is of what peers have measured: of a data directory and of a file, each by its folder's
// name. A wrong ending is refused, and nothing is written then.
func TestReport(t *testing.T) {
	dir := t.TempDir()
	var from []string
	for _, name := range []string{"first", "second"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		path := filepath.Join(dir, name, "metrics.jsonl")
		h := eventlog.NewHistory(disk.OS, path)
		for slot := range uint64(3) {
			loss := float64(3 - slot)
			must(t, h.Add(p2pdiloco.SlotMetrics{Slot: slot + 1, Loss: &loss, Members: 2}))
		}
		must(t, h.Close())
		from = append(from, path)
	}
	from[0] = filepath.Dir(from[0])
	page := filepath.Join(dir, "run.html")
	code, said, faults := clitest.Line(newRoot(), "report", from[0], from[1], "--out", page)
	if code != cli.ExitOK || !strings.Contains(said, page+": 6 slots, as 2 of the run's peers measured them") {
		t.Fatalf("status %d: %s%s", code, said, faults)
	}
	b, err := os.ReadFile(page)
	must(t, err)
	for _, want := range []string{">first<", ">second<", "Loss by slot", "second in training"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in the page", want)
		}
	}
	wrong := filepath.Join(dir, "run.pdf")
	code, _, faults = clitest.Line(newRoot(), "report", from[0], "--out", wrong)
	_, none := os.Stat(wrong)
	if code != cli.ExitUsage || !strings.Contains(faults, ".html, .svg, .csv, .tex") || none == nil {
		t.Errorf("status %d: %s, and a file: %v", code, faults, none == nil)
	}
}
