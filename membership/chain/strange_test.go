package chain

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	pack "github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A COMMIT may come from anybody, and the record in it is checked before its certificate is. So
// whatever it says, the check must end, and take in nothing. Records of honest members are changed
// here in one to four places: a field, an element of a list, its length.
func TestNoStrangersRecordEndsAPeer(t *testing.T) {
	worlds := map[bool]*signedWorld{}
	for _, byzantine := range []bool{false, true} {
		worlds[byzantine] = churned(byzantine, 9, 5, 60)
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
			testutil.Vary(&r, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") })
		}
		if rapid.IntRange(0, 3).Draw(t, "what is easy to get right is right") > 0 {
			next := from.Next()
			r.Run, r.Height, r.Prev = w.rules.Run, next.Height, next.Prev
			r.Work = from.WorkAfter(r.Kind, r.Contributions)
			if r.Kind == slot.Fork {
				r.Work = from.Tip().Work
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
