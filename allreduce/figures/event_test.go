package figures

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// The event of a slot has each contributor's figures, in few digits. What is not known is left out,
// for JSON has no word for it.
func TestEventOfFigures(t *testing.T) {
	got, err := json.Marshal(event(7, []Contribution{
		{Peer: "a", Norm: 1.23456789, Ratio: .98765432, Cosine: -.5, Trimmed: 1. / 3, Clip: 1},
		{Peer: "b", Norm: 2e9 + 1, Ratio: math.Inf(1), Cosine: math.NaN(), Clip: .5},
	}))
	if err != nil {
		t.Fatal(err)
	}
	a, b := peerJSON(t, "a"), peerJSON(t, "b")
	want := `{"contributors":[{"peer":` + a + `,"norm":1.235,"ratio":0.9877,"cosine":-0.5,"trimmed":0.3333,"clip":1},` +
		`{"peer":` + b + `,"norm":2000000000,"trimmed":0,"clip":0.5}],"slot":7}`
	if string(got) != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func peerJSON(t *testing.T, p slot.PeerID) string {
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// However many contribute, the event of a slot stays small, and has those that stand out.
func TestEventOfManyContributors(t *testing.T) {
	var of []Contribution
	for i := range 500 {
		of = append(of, Contribution{
			Peer: slot.PeerID(fmt.Sprintf("%038d", i)), Norm: 1.2345678 + float64(i)/1e4, Ratio: 1.0123456,
			Cosine: .31234567 + float64(i)/1e4, Trimmed: .12345678, Clip: .98765432,
		})
	}
	of[3].Cosine = math.NaN()
	of[77].Cosine, of[400].Cosine = -1, -.9
	of[250].Norm = 1e9
	fields := event(7, of)
	listed := fields["contributors"].([]Figures)
	if len(listed) != mostFigures || fields["left_out"] != 500-mostFigures {
		t.Fatalf("lists %d, and leaves out %v", len(listed), fields["left_out"])
	}
	for _, i := range []int{77, 250, 400} {
		if !slices.ContainsFunc(listed, func(f Figures) bool { return f.Peer == of[i].Peer }) {
			t.Errorf("peer %d stands out, and is not listed", i)
		}
	}
	if slices.ContainsFunc(listed, func(f Figures) bool { return f.Peer == of[3].Peer }) {
		t.Error("a cosine that is not known counts as a low one")
	}
	if !slices.IsSortedFunc(listed, func(a, b Figures) int { return strings.Compare(string(a.Peer), string(b.Peer)) }) {
		t.Error("the peers are out of order")
	}
	if line, err := json.Marshal(fields); err != nil || len(line) > 8<<10 {
		t.Errorf("the event takes %d bytes (%v)", len(line), err)
	}
}
