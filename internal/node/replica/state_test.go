package replica

import (
	"errors"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// A fetched state that cannot be read leaves the vectors filled in part. A caller that asks for the
// anchor then must not get those under the slot of the state before: it would train from them.
func TestAnAnchorFilledInPartIsNotGiven(t *testing.T) {
	const elements = 8
	s, err := newState(outeropt.Config{Name: outeropt.SGD, LR: 1},
		[]slot.Fragment{{Ranges: []slot.Range{{End: elements}}}}, &scratch{elements: elements})
	if err != nil {
		t.Fatal(err)
	}
	fill := func(value float32, at uint64, fault error) {
		_ = s.replace(func(vectors [][]float32) (Position, error) {
			for i := range vectors[0][:elements/2] {
				vectors[0][i] = value
			}
			return Position{Height: at, Slot: at}, fault
		})
	}
	followed, edition := make([]float32, elements), Edition{}
	for _, c := range []struct {
		value float32
		at    uint64
		fault error
		want  uint64 // the slot of what is given, and a value in it
		gives float32
	}{{1, 5, nil, 5, 1}, {2, 9, errors.New("a read error"), 5, 1}, {3, 9, nil, 9, 3}} {
		fill(c.value, c.at, c.fault)
		at, ok := s.position()
		edition = s.copyOnward(followed, edition)
		if ok != (c.fault == nil) || ok && at.Slot != c.want || edition.Slot != c.want || followed[0] != c.gives {
			t.Errorf("%+v: at %v (%v); followed to %v: %v", c, at, ok, edition, followed)
		}
	}
}
