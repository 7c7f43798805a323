package chain

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	pack "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A COMMIT may come from anybody, and the record in it is checked before its certificate is. So
// whatever it says, the check must end, and take in nothing. Records of honest members are changed
// here in one to four places: a field, an element of a list, its length.
func TestNoStrangersRecordEndsAPeer(t *testing.T) {
	worlds := map[bool]*signedWorld{}
	for _, byzantine := range []bool{false, true} {
		worlds[byzantine] = newSignedWorld(signedRules(byzantine, 16))
		worlds[byzantine].churn(9, 5, 60, func() {})
	}
	rapid.Check(t, func(t *rapid.T) {
		w := worlds[rapid.Bool().Draw(t, "byzantine")]
		k := rapid.SampledFrom(w.Commits()).Draw(t, "record of")
		from := w.Chain
		if rapid.IntRange(0, 3).Draw(t, "where it belongs") > 0 && w.Holds(k.Record.Height-1) {
			from = w.UpTo(k.Record.Height - 1)
		}
		r, err := read(k.Record)
		if err != nil {
			t.Fatal(err)
		}
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			vary(t, reflect.ValueOf(&r).Elem())
		}
		if rapid.IntRange(0, 3).Draw(t, "what is easy to get right is right") > 0 {
			next := from.Next()
			r.Run, r.Height, r.Prev, r.Work = w.rules.Run, next.Height, next.Prev, from.WorkAfter(r.Kind, r.Contributions)
			if r.Kind == slot.Fork {
				r.Work = from.WorkOfFork(r.Members)
			}
		}
		if r, err = read(r); err != nil {
			return
		}
		tip := from.TipHash()
		nobody := func(slot.PeerID, []byte, []byte) bool { return false }
		if err := from.Extend(wire.Commit{Record: r, Certificate: k.Certificate}, nobody); err == nil {
			t.Fatal("a record is taken in, of which no signature is good")
		}
		if from.TipHash() != tip {
			t.Fatal("the chain has changed")
		}
	})
}

// read returns a record as it comes from the network.
func read(sent slot.Record) (slot.Record, error) {
	b := pack.NewReader(sent.Append(nil))
	r := slot.ReadRecord(b)
	return r, b.Done()
}

// vary changes something in a value: a number, a length, or a part of it.
func vary(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		vary(t, v.Field(rapid.IntRange(0, v.NumField()-1).Draw(t, "field")))
	case reflect.Slice:
		varyList(t, v)
	case reflect.Array:
		v.Index(rapid.IntRange(0, v.Len()-1).Draw(t, "place")).Set(reflect.Zero(v.Type().Elem()))
	case reflect.String:
		v.SetString(rapid.SampledFrom([]string{"", "x", v.String() + "y"}).Draw(t, "text"))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(rapid.SampledFrom([]float64{0, 1, -1, math.Inf(1), math.NaN(), 1e300}).Draw(t, "number"))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		most := uint64(math.MaxUint64) >> (64 - v.Type().Bits())
		v.SetUint(rapid.SampledFrom([]uint64{0, 1, 2, v.Uint() + 1, v.Uint() - 1, most, most / 2, most - 1}).Draw(t,
			"number") & most)
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.SampledFrom([]int64{0, 1, -1, math.MaxInt64, math.MinInt64}).Draw(t, "number"))
	default:
		t.Fatalf("a %s cannot be changed", v.Kind())
	}
}

func varyList(t *rapid.T, v reflect.Value) {
	how := rapid.SampledFrom([]string{"none", "one less", "one twice", "in another order", "one other", "new"}).Draw(t,
		"list")
	at := rapid.IntRange(0, max(0, v.Len()-1)).Draw(t, "place")
	switch {
	case how == "new":
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case how == "none":
		v.SetZero()
	case v.Len() == 0:
	case how == "one less":
		v.Set(reflect.AppendSlice(v.Slice3(0, at, at), v.Slice(at+1, v.Len())))
	case how == "one twice":
		v.Set(reflect.Append(v, v.Index(at)))
	case how == "in another order":
		swap := reflect.Swapper(v.Interface())
		swap(at, v.Len()-1)
	default:
		vary(t, v.Index(at))
	}
}
