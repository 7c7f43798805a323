package chaos

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Memory is what the peers' processes take at one time: for each of takes a value a process.
type Memory struct {
	Slot uint64               `json:"slot"`
	Take map[string][]float64 `json:"take"`
}

// takes are what processes take. RSS and descriptors (open files and sockets) are 0 except on
// Linux. Disk is that of a data directory and its events.
var takes = []string{"rss_bytes", "heap_bytes", "goroutines", "descriptors", "disk_bytes"}

// memory is a sample of the running processes.
func (r *runner) memory() Memory {
	m := Memory{r.ledger.slot, map[string][]float64{}}
	for _, p := range r.nodes {
		s := p.status.Process
		if !p.running() || s.Goroutines == 0 {
			continue
		}
		var size, pages float64
		statm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID()))
		_, _ = fmt.Sscan(string(statm), &size, &pages) // 0 where the system does not say
		open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
		for i, v := range []float64{
			pages * float64(os.Getpagesize()), float64(s.HeapBytes), float64(s.Goroutines), float64(len(open)),
			diskBytes(p.Data),
		} {
			m.Take[takes[i]] = append(m.Take[takes[i]], v)
		}
	}
	return m
}

// diskBytes is the size of a peer's data directory and of its files of events. Files that vanish
// meanwhile do not count.
func diskBytes(data string) (n float64) {
	names, _ := filepath.Glob(data + ".events*") // the pattern is well formed
	for _, root := range append(names, data) {
		_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, _ error) error {
			if info, err := os.Lstat(path); err == nil && !info.IsDir() {
				n += float64(info.Size())
			}
			return nil
		})
	}
	return n
}

func (r Result) memoryTable(w io.Writer) {
	if len(r.Memory) > 0 {
		fmt.Fprintln(w, "\nMEDIAN (MAX) AT SLOT\t"+strings.ToUpper(strings.Join(takes, "\t")))
	}
	for _, m := range r.Memory {
		fmt.Fprint(w, m.Slot)
		for _, name := range takes {
			fmt.Fprint(w, "\t", spread(m.Take[name], ""))
		}
		fmt.Fprintln(w)
	}
}
