// Package document makes documents of the slots that peers have measured (their metrics.jsonl): a
// page that needs nothing else, the picture of the loss, rows for a spreadsheet, and a table for a
// paper. Several peers are series in the same pictures.
//
// FollowMetrics tells trackers what a peer measures, while it runs: it writes each slot of the
// peer's metrics.jsonl to an event file of TensorBoard, or its line to another file.
package document

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
)

// Peer is what one peer has measured, the oldest slot first.
type Peer struct {
	Name  string
	Slots []p2pdiloco.SlotMetrics
}

// formats are what documents can be, by the end of a file's name.
var formats = map[string]func(w io.Writer, peers []Peer) error{
	".html": page, ".svg": picture, ".csv": rows, ".tex": table,
}

// Endings lists the ends of the names of files that Write can write.
func Endings() []string {
	return []string{".html", ".svg", ".csv", ".tex"}
}

// Write writes the document that the end of a file's name asks for.
func Write(w io.Writer, file string, peers []Peer) error {
	write, known := formats[strings.ToLower(filepath.Ext(file))]
	if !known {
		return fmt.Errorf("%s: the end of the name says what is written: %s", file, strings.Join(Endings(), ", "))
	}
	for i := range peers {
		peers[i].Slots = newest(peers[i].Slots)
	}
	return write(w, peers)
}

// newest leaves one line of each slot, the last: a run that changed its branch has done some twice.
func newest(slots []p2pdiloco.SlotMetrics) (kept []p2pdiloco.SlotMetrics) {
	for _, m := range slots {
		for len(kept) > 0 && kept[len(kept)-1].Slot >= m.Slot {
			kept = kept[:len(kept)-1]
		}
		kept = append(kept, m)
	}
	return slices.Clip(kept)
}
