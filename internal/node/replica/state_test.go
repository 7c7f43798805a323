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
		[]slot.Fragment{{Ranges: []slot.Range{{End: elements}}}}, elements)
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
	fill(1, 5, nil)
	whole, followed := make([]float32, elements), make([]float32, elements)
	at, ok := s.copyAnchor(whole)
	edition := s.copyOnward(followed, Edition{})
	if !ok || at.Slot != 5 || edition.Slot != 5 || whole[0] != 1 || followed[0] != 1 {
		t.Fatalf("%v %v, %v and %v", at, edition, whole, followed)
	}
	fill(2, 9, errors.New("a read error"))
	if at, ok = s.copyAnchor(whole); ok || whole[0] != 1 {
		t.Errorf("the anchor of slot %d: %v", at.Slot, whole)
	}
	if now := s.copyOnward(followed, edition); now != edition || followed[0] != 1 {
		t.Errorf("followed to slot %d: %v", now.Slot, followed)
	}
	fill(3, 9, nil)
	if at, ok = s.copyAnchor(whole); !ok || at.Slot != 9 || whole[0] != 3 {
		t.Errorf("the anchor of slot %d: %v", at.Slot, whole)
	}
	if now := s.copyOnward(followed, edition); now.Slot != 9 || followed[0] != 3 {
		t.Errorf("followed to slot %d: %v", now.Slot, followed)
	}
}
