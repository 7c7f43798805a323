package document

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"reflect"
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
)

// rows writes a row for each slot of each peer, under the names that metrics.jsonl has. What is not
// known is empty.
func rows(w io.Writer, peers []Peer) error {
	out, names := csv.NewWriter(w), columns()
	_ = out.Write(append([]string{"peer"}, names...)) // Flush tells
	for _, p := range peers {
		for _, m := range p.Slots {
			row, err := cells(m, names)
			if err != nil {
				return err
			}
			_ = out.Write(append([]string{p.Name}, row...))
		}
	}
	out.Flush()
	return out.Error()
}

// columns are the fields of a line of metrics.
func columns() (names []string) {
	of := reflect.TypeFor[p2pdiloco.SlotMetrics]()
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

func cells(m p2pdiloco.SlotMetrics, names []string) (row []string, err error) {
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
