//go:build linux

package attach

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/memory"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// wide is a model of 50 million parameters that nothing is done with.
type wide struct{ attachtest.Toy }

func (*wide) Layout() trainer.Layout {
	return trainer.Layout{{Name: "w", Shape: []uint64{50_000, 1000}}}
}

// TestSharedMemory: with four ranks that have read and written all of it, node and ranks map two
// vectors, and each page counts once, whatever the number of ranks.
func TestSharedMemory(t *testing.T) {
	m := newMachine(t, Config{})
	var all []*attachtest.Rank
	attached := make(chan error)
	for i := range uint64(4) {
		r := &attachtest.Rank{Trainer: new(wide), Number: i, World: 4, Set: "a"}
		all = append(all, r)
		go func() { attached <- r.Attach(m.server.Path()) }()
	}
	for range all {
		if err := <-attached; err != nil {
			t.Fatal(err)
		}
	}
	tr, err := m.server.Trainer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := tr.layout.Elements()
	touch := func(v []float32) {
		for i := 0; i < len(v); i += 1024 {
			v[i]++
		}
	}
	touch(tr.start)
	touch(tr.local)
	for _, r := range all {
		touch(r.Local())
		if r.Start()[1024] != 1 {
			t.Error("start is not shared")
		}
		for i := 0; i < int(d); i += 1024 {
			_ = r.Start()[i]
		}
	}
	if tr.local[0] != 5 {
		t.Errorf("%v of 5 wrote to local", tr.local[0])
	}
	const vectors = 2
	if pss, most := mapped(t), vectors*memory.Size(d); pss > most || pss < most*9/10 {
		t.Errorf("%d KiB are mapped, two vectors are %d KiB", pss>>10, most>>10)
	}
	for _, r := range all {
		r.Close()
	}
}

// mapped is the proportional set size of the shared files in this process, in bytes.
func mapped(t *testing.T) (sum uint64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		var n uint64
		if strings.Contains(line, "-") && !strings.HasPrefix(line, "VmFlags") && strings.Contains(line, " ") &&
			strings.Contains(strings.Fields(line)[0], "-") {
			inside = strings.Contains(line, "memfd:p2pdiloco-vectors")
		} else if _, err := fmt.Sscanf(line, "Pss: %d kB", &n); err == nil && inside {
			sum += n << 10
		}
	}
	return sum
}

// BenchmarkRoundTrip is a round without a model: LOAD, and a TRAIN of one step.
func BenchmarkRoundTrip(b *testing.B) {
	for _, world := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("ranks=%d", world), func(b *testing.B) {
			s, err := Listen(Config{DataDir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for i := range world {
				r := &attachtest.Rank{Trainer: &attachtest.Toy{}, Number: uint64(i), World: uint64(world), Set: "a"}
				go func() { _ = r.Run(b.Context(), s.Path()) }()
			}
			tr, err := s.Trainer(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := tr.Load(b.Context(), tr.start); err != nil {
					b.Fatal(err)
				}
				if _, err := tr.Train(b.Context(), trainer.Task{Steps: 1}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
