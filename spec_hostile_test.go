package p2pdiloco

import (
	"slices"
	"testing"
)

// A stranger's spec is settled in every field, or it is refused: what is empty in it panics later, here and at each restart.
func TestParseSpecRefusesWhatIsNotSettled(t *testing.T) {
	full := Spec{Name: "r", Layout: Layout{{Name: "x", Shape: []uint64{10}}}}.Settled()
	for _, f := range specFields {
		if f.name == "nonce" {
			continue
		}
		s := full
		s.Discount = slices.Clone(full.Discount)
		switch p := f.at(&s).(type) {
		case *string:
			*p = ""
		case *uint64:
			*p = 0
		case *[]uint64:
			*p = nil
		}
		got, err := ParseSpec(s.Append(nil))
		if err != nil {
			continue
		}
		t.Errorf("a spec without %s is accepted", f.name)
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.Errorf("and panics: %v", p)
				}
			}()
			_, _ = newState(got)
		}()
	}
}
