package slot

import (
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// A head has the hash of its record, and comes back as it was, without the record's body.
func TestHead(t *testing.T) {
	access := Record{Height: 2, Kind: Access, Key: fill(1), Decisions: []Decision{{Action: Remove, Peer: "a"}}}
	for _, c := range []Record{goldenStep, testStep(), access, Genesis(fill(7))} {
		b := c.Head().Append(nil)
		r := wire.NewReader(b)
		got := Head{Record: readHead(r), Body: readRoot(r)}
		if err := r.Done(); err != nil {
			t.Fatal(err)
		}
		if got.Hash() != c.Hash() || len(got.Record.Contributions)+len(got.Record.Decisions) > 0 {
			t.Errorf("a %s record: the head is %+v", c.Kind, got)
		}
	}
}
