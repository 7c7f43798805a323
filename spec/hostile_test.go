package spec

import (
	"slices"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// A stranger's spec is settled in every field, or it is refused: what is empty in it panics later,
// here and at each restart.
func TestParseSpecRefusesWhatIsNotSettled(t *testing.T) {
	full := Spec{Name: "r", Layout: trainer.Layout{{Name: "x", Shape: []uint64{10}}}}.Settled()
	for _, f := range table {
		if f.mayLack() {
			continue
		}
		s := full
		s.Discount = slices.Clone(full.Discount)
		switch p := f.At(&s).(type) {
		case *string:
			*p = ""
		case *uint64:
			*p = 0
		case *[]uint64:
			*p = nil
		case *time.Duration:
			*p = 0
		}
		if _, err := Parse(s.Append(nil)); err == nil {
			t.Errorf("a spec without %s is accepted", f.Name)
		}
	}
}
