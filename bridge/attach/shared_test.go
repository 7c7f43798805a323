//go:build unix

package attach

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/memory"
)

// TestSharedMemoryIsCounted: a status that counted each rank's mapping, or no mapping at all, or a
// local that is gone, would be wrong about what attaching takes.
func TestSharedMemoryIsCounted(t *testing.T) {
	m := newMachine(t, Config{})
	want := func(mappings uint64, when string) {
		t.Helper()
		if got := m.server.loop.memory.bytes.Load(); got != mappings*memory.Size(253) {
			t.Errorf("%s: %d bytes are shared, not %d mappings", when, got, mappings)
		}
	}
	attach := func(set string) (all []*attachtest.Rank) {
		t.Helper()
		attached := make(chan error, 2)
		for i := range cap(attached) {
			r := &attachtest.Rank{Trainer: &attachtest.Toy{}, Number: uint64(i), World: 2, Set: set}
			all = append(all, r)
			go func() { attached <- r.Attach(m.server.Path()) }()
		}
		for range all {
			if err := <-attached; err != nil {
				t.Fatal(err)
			}
		}
		return all
	}
	want(0, "before a trainer has attached")
	first := attach("first")
	want(2, "when two ranks share it")
	tr, err := m.server.Trainer(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	want(2, "when the node works in it")
	first[1].Kill()
	for err == nil {
		_, err = tr.Evaluate(t.Context())
	}
	defer first[0].Close()
	second := attach("second")
	defer second[0].Close()
	defer second[1].Close()
	want(3, "when the next set has a local of its own")
	if err := tr.Return(t.Context(), err); err != nil {
		t.Fatal(err)
	}
	want(2, "when the node works in the next set's")
	if err := m.server.Close(); err != nil {
		t.Error(err)
	}
	want(0, "in the end")
}
