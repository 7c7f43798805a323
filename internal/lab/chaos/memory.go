package chaos

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory is the memory of the peers' processes at one time.
type Memory struct {
	Slot  uint64       `json:"slot"`
	Peers []PeerMemory `json:"peers"`
}

// PeerMemory is one process's part.
type PeerMemory struct {
	Peer       int    `json:"peer"`
	Uptime     int    `json:"uptime_seconds"`
	RSS        uint64 `json:"rss_bytes"` // 0 where the system does not say
	Heap       uint64 `json:"heap_bytes"`
	Goroutines int    `json:"goroutines"`
	// open files and sockets; 0 where the system does not say
	Descriptors int `json:"descriptors"`
	// of its data directory and its events
	Disk uint64 `json:"disk_bytes"`
}

// remember takes a sample of the running processes.
func (r *runner) remember() {
	m := Memory{Slot: r.ledger.slot}
	for _, p := range r.nodes {
		if s := p.status; p.running() && s.Process.Goroutines > 0 {
			m.Peers = append(m.Peers, PeerMemory{
				p.n, int(s.Uptime.Seconds()), residentBytes(p.PID()),
				s.Process.HeapBytes, s.Process.Goroutines, descriptors(p.PID()), diskBytes(p.Data),
			})
		}
	}
	if len(m.Peers) > 0 {
		r.memory = append(r.memory, m)
	}
}

// rememberInTime takes a sample after a tenth and after half of the slots; openGate takes the last
// one. A soak goes by time.
func (r *runner) rememberInTime() {
	if r.soak != nil {
		return
	}
	due := []uint64{r.cfg.Slots / 10, r.cfg.Slots / 2}
	if n := len(r.memory); n < len(due) && r.ledger.slot > due[n] {
		r.remember()
	}
}

// residentBytes is the resident memory of a process; 0 except on Linux.
func residentBytes(pid int) uint64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// descriptors is how many files and sockets a process has open; 0 except on Linux.
func descriptors(pid int) int {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return 0
	}
	return len(open)
}

// diskBytes is the size of a peer's data directory and of its files of events. Files that vanish
// meanwhile do not count.
func diskBytes(data string) (n uint64) {
	names, err := filepath.Glob(data + "*.events*")
	if err != nil {
		names = nil
	}
	for _, root := range append(names, data) {
		_ = filepath.WalkDir(root, func(_ string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return nil
			}
			if info, err := e.Info(); err == nil {
				n += uint64(info.Size())
			}
			return nil
		})
	}
	return n
}
