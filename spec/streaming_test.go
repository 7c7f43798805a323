package spec

import (
	"slices"
	"testing"
)

// The borders lie H/P steps apart, and a round has H.
func TestBorders(t *testing.T) {
	s := Spec{InnerSteps: 11, Fragments: 4}
	var got []int
	for slotNumber := uint64(1); slotNumber <= 8; slotNumber++ {
		got = append(got, s.Interval(slotNumber))
	}
	if want := []int{2, 3, 3, 3, 2, 3, 3, 3}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := (Spec{InnerSteps: 500, Fragments: 1}).Interval(7); got != 500 {
		t.Error(got)
	}
}
