package trainer

import (
	"encoding/hex"
	"strings"
	"testing"
	"testing/quick"
)

// The printed form is libp2p's: an ID that libp2p made, and the corners of base 58.
func TestPeerIDsArePrintedAsLibp2pDoes(t *testing.T) {
	for text, id := range map[string]string{
		"12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF": "0024080112204aa77b48782ef33e9aae76454bc5" +
			"ca7f94c552e6eb242cc87c69e24846691082",
		"1":               "00",
		"112":             "000001",
		"z":               "39",
		"21":              "3a",
		"5Q":              "ff",
		"JxF12TrwUP45BMd": "48656c6c6f20576f726c64",
	} {
		p, err := ParsePeerID(text)
		if got := hex.EncodeToString([]byte(p)); err != nil || got != id || p.String() != text {
			t.Errorf("%s: %s, printed %s, %v", text, got, p, err)
		}
	}
	back := func(b []byte) bool {
		p := PeerID("x" + string(b[:min(len(b), 60)]))
		got, err := ParsePeerID(p.String())
		return err == nil && got == p
	}
	if err := quick.Check(back, nil); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "0OIl", "12D3KooW+", "é", strings.Repeat("z", 129)} {
		if p, err := ParsePeerID(bad); err == nil {
			t.Errorf("%q is taken for the peer ID %q", bad, string(p))
		}
	}
}

// What a peer ID has to do with the JSON of a status.
func TestPeerIDsInJSON(t *testing.T) {
	p, err := ParsePeerID("12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF")
	text, merr := p.MarshalText()
	var back PeerID
	if err != nil || merr != nil || back.UnmarshalText(text) != nil || back != p || p.Short() != "SQNyPF" {
		t.Errorf("%s became %s", text, back)
	}
}

// Two pieces of a task, and what they did, add up to the whole.
func TestPiecesOfATaskAddUp(t *testing.T) {
	whole := Task{Slot: 3, Steps: 10, Done: 4}
	a, b := whole.Piece(0, 3), whole.Piece(3, 10)
	if a.Done != 4 || a.Steps != 3 || b.Done != 7 || b.Steps != 7 {
		t.Errorf("%+v, %+v", a, b)
	}
	sum := Stats{}.Plus(Stats{Steps: 1, Tokens: 10, Loss: 4})
	sum = sum.Plus(Stats{Steps: 3, Tokens: 30, Loss: 8, GradNorm: 4})
	if sum != (Stats{Steps: 4, Tokens: 40, Loss: 7, GradNorm: 3}) {
		t.Errorf("%+v", sum)
	}
	reported := 0
	whole.Report(5) // outside a node
	whole.Progress = func(stepsDone int) { reported = stepsDone }
	if whole.Report(7); reported != 7 {
		t.Errorf("reported %d", reported)
	}
}
