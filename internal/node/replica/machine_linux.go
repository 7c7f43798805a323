package replica

import (
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// physical is the least of the machine's memory and the limits of the control groups that this
// process is in, in bytes; 0 if unknown.
func physical() uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	least := uint64(info.Totalram) * uint64(info.Unit) //nolint:unconvert // 32 bits wide on some systems
	for _, g := range groups() {
		if most, limited := number(path.Join(g.folder, g.limit)); limited {
			least = min(least, most)
		}
	}
	return least
}

// FreeMemory is how much memory a process here may still take; what cannot be read does not count.
func FreeMemory() uint64 {
	meminfo, _ := os.ReadFile("/proc/meminfo")
	least := available(string(meminfo))
	for _, g := range groups() {
		least = min(least, g.free())
	}
	return least
}

// available reads MemAvailable of /proc/meminfo.
func available(meminfo string) uint64 {
	if n, ok := field(meminfo, "MemAvailable:"); ok {
		return n << 10
	}
	return math.MaxUint64
}

// group is a control group, with the names of its files.
type group struct{ folder, limit, usage, cache string }

// groups are those that this process is in.
func groups() (all []group) {
	lines, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(lines)) {
		switch f := strings.SplitN(strings.TrimSpace(line), ":", 3); {
		case len(f) == 3 && f[1] == "":
			all = append(all, above("/sys/fs/cgroup", f[2],
				group{limit: "memory.max", usage: "memory.current", cache: "inactive_file"})...)
		case len(f) == 3 && strings.Contains(","+f[1]+",", ",memory,"):
			all = append(all, above("/sys/fs/cgroup/memory", f[2], group{
				limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes", cache: "total_inactive_file",
			})...)
		}
	}
	return all
}

// above are a group and all that it is in. In a container the path may be that outside: its own
// group is at the root then.
func above(root, inner string, g group) (all []group) {
	for dir := path.Clean("/" + inner); ; dir = path.Dir(dir) {
		g.folder = path.Join(root, dir)
		all = append(all, g)
		if dir == "/" {
			return all
		}
	}
}

// free is how much a group may still take.
func (g group) free() uint64 {
	most, limited := number(path.Join(g.folder, g.limit))
	used, known := number(path.Join(g.folder, g.usage))
	if !limited || !known {
		return math.MaxUint64
	}
	stat, _ := os.ReadFile(path.Join(g.folder, "memory.stat"))
	droppable, _ := field(string(stat), g.cache) // files
	used -= min(used, droppable)
	return most - min(most, used)
}

func number(file string) (n uint64, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// field is the number behind a name, of which there is one in a line.
func field(text, name string) (n uint64, ok bool) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name {
			n, err := strconv.ParseUint(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
