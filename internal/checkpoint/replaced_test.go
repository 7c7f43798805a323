package checkpoint

import (
	"errors"
	"os"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Two readers have a file open that has rotted. The first one sets it aside, and a good one takes
// its place. When the second one finds the fault it must leave the good one alone: else that is
// fetched once more.
func TestAGoodFileIsNotSetAsideForABadOne(t *testing.T) {
	t.Run("outcome", func(t *testing.T) {
		s, _ := testStore(t, t.TempDir())
		gs, data := segments(1)
		if err := s.PutOutcome(1, gs, data); err != nil {
			t.Fatal(err)
		}
		name := s.folder.path(fileName(outcomePrefix, 1, slot.OutcomeRoot(gs)))
		flip(t, name, 2000)
		late, err := s.Segment(gs[0].Root)
		if err != nil {
			t.Fatal(err)
		}
		defer late.Close()
		o, err := s.Outcome(1, slot.OutcomeRoot(gs))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Read(0, nil); !errors.As(err, new(*CorruptError)) {
			t.Fatal(err)
		}
		if err := s.PutOutcome(1, gs, data); err != nil {
			t.Fatal(err)
		}
		hashes, err := late.Hashes()
		if err == nil {
			_, err = late.Frame(nil, 0, hashes)
		}
		if !errors.As(err, new(*CorruptError)) {
			t.Fatal(err)
		}
		if _, err := os.Stat(name); err != nil || !s.HasOutcome(1, slot.OutcomeRoot(gs)) {
			t.Errorf("the good outcome is not held any more: %v", err)
		}
	})
	t.Run("state", func(t *testing.T) {
		s, _ := testStore(t, t.TempDir())
		c := save(t, s, 4)
		flip(t, s.folder.path(c.name()), testShape.Size()/2)
		late, _ := s.states.named(c.name())
		if err := s.Load(c, blank()...); !errors.As(err, new(*CorruptError)) {
			t.Fatal(err)
		}
		save(t, s, 4)
		s.states.setAside(late, &CorruptError{Path: c.name(), Why: "rotten"})
		if err := s.Load(c, blank()...); err != nil {
			t.Errorf("the good state is not held any more: %v", err)
		}
	})
}

// A checkpoint is made, and with it what is not needed is removed, while a state that was begun
// before is taken up. Its file must stay: else all of it is fetched into a file that has no name
// any more.
func TestAStateThatIsTakenUpIsNotRemoved(t *testing.T) {
	v := vectors(4)
	b := naive(4, v)
	c := Checkpoint{Height: 4, Slot: 4, Root: StateRoot(4, v...), Size: testShape.Size()}
	s, _ := testStore(t, t.TempDir())
	own := save(t, s, 1)
	all := pieces(c.Size)
	p := begin(t, s, c)
	write(t, p, b, all[0])
	p.Keep()
	p = begin(t, s, c)
	if err := s.Prune(Policy{
		Keep: 1, State: func(h uint64) (slot.Root, bool) { return own.Root, h == own.Height },
		Outcome: func(uint64) (slot.Root, bool) { return slot.Root{}, false },
	}); err != nil {
		t.Error(err)
	}
	if !p.Has(all[0][0], all[0][1]) {
		t.Error("the piece that was there is not taken up")
	}
	for _, piece := range all {
		write(t, p, b, piece)
	}
	if _, err := p.Adopt(); err != nil {
		t.Fatal(err)
	}
	if err := s.Load(c, blank()...); err != nil {
		t.Error(err)
	}
}
