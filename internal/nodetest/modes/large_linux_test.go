package modes

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco"
)

var large = flag.Bool("large", false, "run TestALargeModelInLittleMemory: root, 35 GB in TMPDIR, ten minutes")

// A model of 600 million parameters, 2.4 GB, is trained by two peers in mode streaming that have 6
// GB of memory each, by control groups: the vectors of state and trainer, five times 2.4 GB, lie in
// files.
func TestALargeModelInLittleMemory(t *testing.T) {
	if !*large {
		t.Skip("-args -large runs it")
	}
	const elements, limit, fragments = 600_000_000, 6_000_000_000, 16
	var orders [2]order
	for i := range orders {
		orders[i] = order{Elements: elements, Vectors: true, Slots: 4, Group: limited(t, limit, i)}
		orders[i].Spec = p2pdiloco.Spec{
			Name: "large", Mode: p2pdiloco.ModeStreaming, Fragments: fragments, InnerSteps: fragments,
			Rounds: 100, StartPeers: 2, MinPeers: 2, Trust: p2pdiloco.TrustCrash,
		}
	}
	const vector, state = 4 * elements, 2
	for _, n := range measure(t, orders) {
		t.Logf("of its own at most %.2f vectors (%.2f GB), resident with files %.2f GB; on disk %.2f vectors, %d of "+
			"which are the state; a slot took %.1f s", n.Anonymous/vector, n.Anonymous/1e9, n.Resident/1e9,
			n.Disk/vector+state, state, n.Slots)
		if n.Anonymous > .6*vector || n.Disk/vector+state > 10 {
			t.Errorf("more than .6 vectors of its own, or 10 on disk")
		}
	}
}

// limited makes a control group with so many bytes of memory, below that of this process.
func limited(t *testing.T, bytes, number int) (folder string) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		root, file := "/sys/fs/cgroup", "memory.max"
		if part[1] == "memory" {
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if part[1] != "" {
			continue
		}
		folder = filepath.Join(root, part[2], fmt.Sprint("p2pdiloco-", os.Getpid(), "-", number))
		if err = os.Mkdir(folder, 0o755); err == nil {
			t.Cleanup(func() { _ = os.Remove(folder) })
			err = os.WriteFile(filepath.Join(folder, file), fmt.Append(nil, bytes), 0)
		}
		if err == nil {
			return folder
		}
	}
	t.Skipf("no control group can be made here: %v", err)
	return ""
}
