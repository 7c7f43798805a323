package chaos

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

// Memory is what the peers' processes take at one time: for each of kinds a value a process.
type Memory struct {
	Slot uint64               `json:"slot"`
	Take map[string][]float64 `json:"take"`
}

// takes are what processes take. RSS and descriptors (open files and sockets) are 0 except on
// Linux. Disk is that of a data directory and its events.
var takes = []string{"rss_bytes", "heap_bytes", "goroutines", "descriptors", "disk_bytes"}

// remember takes a sample of the running processes.
func (r *runner) remember() {
	m := Memory{r.ledger.slot, map[string][]float64{}}
	for _, p := range r.nodes {
		s := p.status.Process
		if !p.running() || s.Goroutines == 0 {
			continue
		}
		open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
		for i, v := range []float64{
			resident(p.PID()), float64(s.HeapBytes), float64(s.Goroutines), float64(len(open)), diskBytes(p.Data),
		} {
			m.Take[takes[i]] = append(m.Take[takes[i]], v)
		}
	}
	r.memory = append(r.memory, m)
}

// resident is the resident memory of a process in bytes.
func resident(pid int) float64 {
	var size, pages float64
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	_, _ = fmt.Sscan(string(text), &size, &pages) // 0 where the system does not say
	return pages * float64(os.Getpagesize())
}

// diskBytes is the size of a peer's data directory and of its files of events. Files that vanish
// meanwhile do not count.
func diskBytes(data string) (n float64) {
	names, _ := filepath.Glob(data + "*.events*") // the pattern is well formed
	for _, root := range append(names, data) {
		_ = filepath.WalkDir(root, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return nil
			}
			if info, err := e.Info(); err == nil {
				n += float64(info.Size())
			}
			return nil
		})
	}
	return n
}

func memoryTable(b *strings.Builder, samples []Memory) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nMEDIAN (MAX) AT SLOT\t"+strings.ToUpper(strings.Join(takes, "\t")))
	for _, m := range samples {
		fmt.Fprintf(w, "%d", m.Slot)
		for _, name := range takes {
			median, most := spread(m.Take[name])
			if strings.HasSuffix(name, "bytes") {
				fmt.Fprintf(w, "\t%s (%s)", humanize.Bytes(uint64(median)), humanize.Bytes(uint64(most)))
			} else {
				fmt.Fprintf(w, "\t%.0f (%.0f)", median, most)
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // a strings.Builder takes everything
}
