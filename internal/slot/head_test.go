package slot

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// A head has the hash of its record, and comes back as it was, without the record's body.
func TestHead(t *testing.T) {
	summed := goldenStep
	summed.Summary = fill(0x44)
	access := Record{Height: 2, Kind: Access, Key: fill(1), Decisions: []Decision{{Action: Remove, Peer: "a"}}}
	for _, c := range []Record{goldenStep, testStep(), summed, access, Genesis(fill(7))} {
		b := c.Head().Append(nil)
		r := wire.NewReader(b)
		got := ReadHead(r)
		if err := r.Done(); err != nil {
			t.Fatal(err)
		}
		if got.Hash() != c.Hash() || len(got.Record.Contributions)+len(got.Record.Decisions) > 0 {
			t.Errorf("a %s record: the head is %+v", c.Kind, got)
		}
	}
}

// The layout of docs/protocol.md of a record with a summary.
func TestGoldenSummary(t *testing.T) {
	c := goldenStep
	c.Summary = fill(0x44)
	want := strings.Replace(recordHex, "0000000000000009 02", "0000000000000009 42", 1)
	want = strings.Replace(want, fillHex("33"), fillHex("33")+fillHex("44"), 1)
	if got := hex.EncodeToString(c.Append(nil)); got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got %s, want %s", got, want)
	}
	c.Summary = Root{}
	b := c.Append(nil)
	b[32+8] |= summedKind
	at := 32 + 8 + 1 + 32 + 8 + 32
	b = append(b[:at:at], append(make([]byte, 32), b[at:]...)...)
	if _, err := parseRecord(b); !errors.Is(err, wire.ErrMalformed) {
		t.Errorf("a summary of zeros: %v", err)
	}
}
