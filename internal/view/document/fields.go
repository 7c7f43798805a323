package document

import (
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
)

// names are those of the fields of a line of metrics.jsonl.
var names = func() (names []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[p2pdiloco.SlotMetrics]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}()

// value is the number that a line has under a name; NaN: it is not known.
func value(m p2pdiloco.SlotMetrics, name string) float64 {
	v := reflect.Indirect(reflect.ValueOf(m).Field(slices.Index(names, name)))
	if !v.IsValid() {
		return math.NaN()
	}
	return v.Convert(reflect.TypeFor[float64]()).Float()
}

// slots are what a peer has measured, the oldest slot first.
type slots []p2pdiloco.SlotMetrics

// values are those under a name that are known.
func (s slots) values(name string) (known []float64) {
	for _, m := range s {
		if v := value(m, name); !math.IsNaN(v) {
			known = append(known, v)
		}
	}
	return known
}
