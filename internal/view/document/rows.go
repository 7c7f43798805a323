package document

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
)

// rows writes a row for each slot of each peer, under the names that metrics.jsonl has. What is not
// known is empty.
func rows(w io.Writer, peers []Peer) error {
	out := csv.NewWriter(w)
	_ = out.Write(append([]string{"peer"}, names...)) // Flush tells
	for _, p := range peers {
		for _, m := range p.Slots {
			row, err := cells(m)
			if err != nil {
				return err
			}
			_ = out.Write(append([]string{p.Name}, row...))
		}
	}
	out.Flush()
	return out.Error()
}

func cells(m p2pdiloco.SlotMetrics) (row []string, err error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	err = json.Unmarshal(b, &fields)
	for _, name := range names {
		row = append(row, strings.Trim(string(fields[name]), `"`))
	}
	return row, err
}
