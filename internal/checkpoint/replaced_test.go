package checkpoint

import (
	"errors"
	"os"
	"testing"
)

// Two readers have a file open that has rotted. The first one sets it aside, and a good one takes
// its place. When the second one finds the fault it must leave the good one alone: else that is
// fetched once more.
func TestAGoodFileIsNotSetAsideForABadOne(t *testing.T) {
	t.Run("outcome", func(t *testing.T) {
		s, _ := testStore(t, t.TempDir())
		gs, root := put(t, s, 1, 1)
		name := s.folder.path(fileName(outcomePrefix, 1, root))
		flip(t, name, 2000)
		late, err := s.Segment(gs[0].Root)
		if err != nil {
			t.Fatal(err)
		}
		defer late.Close()
		o, err := s.Outcome(1, root)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.Read(0); !errors.As(err, new(*CorruptError)) {
			t.Fatal(err)
		}
		put(t, s, 1, 1)
		hashes, err := late.Hashes()
		if err == nil {
			_, err = late.Frame(nil, 0, hashes)
		}
		if !errors.As(err, new(*CorruptError)) {
			t.Fatal(err)
		}
		if _, err := os.Stat(name); err != nil || !s.HasOutcome(1, root) {
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
		s.states.setAside(late.name(), late, &CorruptError{Path: c.name(), Why: "rotten"})
		if err := s.Load(c, blank()...); err != nil {
			t.Errorf("the good state is not held any more: %v", err)
		}
	})
}
