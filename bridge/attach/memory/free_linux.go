package memory

import (
	"fmt"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// A memfd beyond the memory that there is does not fail: the kernel ends processes instead, also
// those of others. So what is free is looked at before.

// fits refuses a size beyond what is free in bytes.
func fits(size, free uint64) error {
	if size <= free {
		return nil
	}
	return fmt.Errorf("too little memory: a vector that is shared with the trainer takes %d MiB, and %d MiB are free "+
		"on this machine or in its cgroup: end other programs, or raise the limit", size>>20, free>>20)
}

// Free is how much memory a process here may still take; what cannot be read does not count.
func Free() uint64 {
	meminfo, _ := os.ReadFile("/proc/meminfo")
	least := available(string(meminfo))
	cgroups, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(cgroups)) {
		least = min(least, cgroup(strings.TrimSpace(line)))
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

// cgroup is what is free in the group of a line of /proc/self/cgroup, and in those above it.
func cgroup(line string) uint64 {
	f := strings.SplitN(line, ":", 3)
	switch {
	case len(f) == 3 && f[1] == "":
		return above("/sys/fs/cgroup", f[2], "memory.max", "memory.current", "inactive_file")
	case len(f) == 3 && strings.Contains(","+f[1]+",", ",memory,"):
		return above("/sys/fs/cgroup/memory", f[2], "memory.limit_in_bytes", "memory.usage_in_bytes",
			"total_inactive_file")
	}
	return math.MaxUint64
}

// above looks at a group and all that it is in. In a container the path may be that outside: its
// own group is at the root then.
func above(root, group, limit, usage, cache string) uint64 {
	least := uint64(math.MaxUint64)
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		most, limited := number(path.Join(root, dir, limit))
		used, known := number(path.Join(root, dir, usage))
		if limited && known {
			stat, _ := os.ReadFile(path.Join(root, dir, "memory.stat"))
			droppable, _ := field(string(stat), cache) // files
			used -= min(used, droppable)
			least = min(least, most-min(most, used))
		}
		if dir == "/" {
			return least
		}
	}
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
