//go:build unix

package attach

import (
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/attachtest"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/box"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/memory"
	"github.com/p2pdiloco/p2pdiloco/trainer"
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

// TestAModelThatFitsOnceIsForgotten: start had its memory, and local has none any more. A smaller
// model comes next, and was given the memory and the layout of the first one. What a set has shared
// stays all the same: the node works in it.
func TestAModelThatFitsOnceIsForgotten(t *testing.T) {
	model := func(d uint64) box.Share {
		return box.Share{
			Epoch: 1, Elements: d, Layout: trainer.Layout{{Name: "w", Shape: []uint64{d}}}, Shares: []box.Send{{}},
		}
	}
	const d = 1 << 20
	left := uint64(0)
	newFile = func(size uint64) (*memory.File, error) {
		if size > left {
			return nil, errors.New("too little memory")
		}
		left -= size
		return memory.New(size)
	}
	defer func() { newFile = memory.New }()
	s := &shared{}
	left = memory.Size(d) * 3 / 2
	if _, err := s.next(model(d)); err == nil || s.start != nil || s.bytes.Load() != 0 {
		t.Fatalf("%v, and %d bytes are still mapped", err, s.bytes.Load())
	}
	left = 2 * memory.Size(d/4)
	if _, err := s.next(model(d / 4)); err != nil || s.size != memory.Size(d/4) || s.layout.Elements() != d/4 {
		t.Fatalf("%v, %d bytes, %d elements", err, s.size, s.layout.Elements())
	}
	if err := s.adopt(); err != nil {
		t.Fatal(err)
	}
	s.start.Vector(d / 4)[0] = 7
	if _, err := s.next(model(d / 4)); err == nil || s.start == nil || s.start.Vector(d / 4)[0] != 7 {
		t.Errorf("%v, and what is shared is gone", err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}
