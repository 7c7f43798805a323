package testutil

import (
	"math"
	"reflect"
)

// Vary changes something in what v points to. pick draws a number below n. Fields that are not
// exported stay as they are. Slices are copied before they are changed: others may share them.
func Vary(v any, pick func(n int) int) { varyIn(reflect.ValueOf(v).Elem(), pick) }

func varyIn(v reflect.Value, pick func(n int) int) {
	switch v.Kind() {
	case reflect.Struct:
		if f := v.Field(pick(v.NumField())); f.CanSet() {
			varyIn(f, pick)
		}
	case reflect.Pointer:
		varyPointer(v, pick)
	case reflect.Slice:
		varyList(v, pick)
	case reflect.Array:
		varyIn(v.Index(pick(v.Len())), pick)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.String:
		v.SetString([]string{"", "x", v.String() + "y"}[pick(3)])
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0, 1, -1, math.Inf(1), math.Inf(-1), math.NaN(), 1e300}[pick(7)])
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		most := uint64(math.MaxUint64) >> (64 - v.Type().Bits())
		v.SetUint([]uint64{0, 1, 2, v.Uint() + 1, v.Uint() - 1, most, most / 2, most - 1, 1 << 40}[pick(9)] & most)
	case reflect.Int, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, v.Int() + 1, math.MaxInt64, math.MinInt64}[pick(6)])
	default: // interfaces and the like
	}
}

func varyPointer(v reflect.Value, pick func(n int) int) {
	fresh := reflect.New(v.Type().Elem())
	switch {
	case v.IsNil():
		v.Set(fresh)
	case pick(3) == 0:
		v.SetZero()
	default:
		fresh.Elem().Set(v.Elem())
		varyIn(fresh.Elem(), pick)
		v.Set(fresh)
	}
}

func varyList(v reflect.Value, pick func(n int) int) {
	n := v.Len()
	changed := reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, n+1), v)
	how := pick(6)
	switch {
	case how == 0:
		changed = reflect.Append(changed, reflect.Zero(v.Type().Elem()))
	case how == 1:
		changed = changed.Slice(0, 0)
	case n == 0:
	case how == 2:
		at := pick(n)
		changed = reflect.AppendSlice(changed.Slice(0, at), v.Slice(at+1, n))
	case how == 3:
		changed = reflect.Append(changed, v.Index(pick(n)))
	case how == 4:
		reflect.Swapper(changed.Interface())(pick(n), pick(n))
	default:
		varyIn(changed.Index(pick(n)), pick)
	}
	v.Set(changed)
}
