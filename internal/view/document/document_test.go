package document

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// measured is what a peer has measured of so many slots: its loss falls by .01 a slot, and it takes
// part in all but each fourth.
func measured(n int) (slots []p2pdiloco.SlotMetrics) {
	begin := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for i := 1; i <= n; i++ {
		v := 3 - float64(i)/100
		m := p2pdiloco.SlotMetrics{
			Time: begin.Add(time.Duration(i) * time.Minute), Slot: uint64(i), StateRoot: slot.Root{byte(i)}, Loss: &v,
			HeldOut: &v, HeldOutSlot: uint64(i), Tokens: 100, RunTokens: uint64(400 * i), Members: 4 + i%2,
			Contributors: 4, Seconds: 60, TrainingSeconds: 54, StalledSeconds: 6, BytesSent: 2e6, BytesReceived: 3e6,
			Norm: 2, TokensPerSecond: &v,
		}
		if i%4 != 0 {
			m.OwnNorm = &v
		}
		slots = append(slots, m)
	}
	return slots
}

func write(t *testing.T, file string, peers ...Peer) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, file, peers); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The page holds the facts and the pictures of all peers, is well-formed where peers have markup
// for a name, and loads and runs nothing.
func TestPage(t *testing.T) {
	mark := `<script>alert("&")</script>`
	text := write(t, "Run.HTML", Peer{mark, measured(40)}, Peer{"other", measured(30)})
	for _, want := range []string{
		"40, from 1 to 40", "30, from 1 to 30", "2.6", "16,000 tokens or samples", "90.0%", "10.0%", "4, 5",
		"80 MB; 120 MB", "39m0s", "Loss by slot", "other held out", "Speed", "default-src 'none'",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	if n := strings.Count(text, "<svg"); n != len(graphs)-1 { // no cosine was measured
		t.Errorf("%d pictures of %d", n, len(graphs))
	}
	for _, bad := range []string{"<script", "http://", "https://", "src=", "url("} {
		if strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), bad) {
			t.Errorf("%q is in the page", bad)
		}
	}
	if !strings.Contains(text, "&lt;script&gt;") {
		t.Error("the name is not shown as text")
	}
}

// A picture of many slots is as large as one of some, and is XML.
func TestPicture(t *testing.T) {
	some, many := write(t, "a.svg", Peer{"p", measured(1000)}), write(t, "a.svg", Peer{"p", measured(10_000)})
	if len(many) > 2*len(some) {
		t.Errorf("%d bytes for 10,000 slots, %d for 1,000", len(many), len(some))
	}
	d := xml.NewDecoder(strings.NewReader(many))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if empty := write(t, "a.svg", Peer{"p", []p2pdiloco.SlotMetrics{{Slot: 1}}}); !strings.Contains(empty, "</svg>") {
		t.Error("no picture of a slot without a loss")
	}
}

// A row has the names and the values of the line that it comes from. Of a slot that was done twice,
// after a change of branch, the newest is there alone, and what the branch before had after it is
// not.
func TestRows(t *testing.T) {
	slots := measured(4)
	again := slots[1]
	again.Tokens, again.Loss = 7, nil
	got, err := csv.NewReader(strings.NewReader(write(t, "a.csv", Peer{"a,b", append(slots, again)}))).ReadAll()
	if err != nil || len(got) != 3 {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	row := map[string]string{}
	for i, name := range got[0] {
		row[name] = got[2][i]
	}
	for name, want := range map[string]string{
		"peer": "a,b", "slot": "2", "tokens": "7", "loss": "", "held_out_loss": "2.98", "bytes_sent": "2000000",
		"time": "2026-11-29T12:02:00Z", "members": "4",
	} {
		if row[name] != want {
			t.Errorf("%s is %q, want %q", name, row[name], want)
		}
	}
}

func TestTable(t *testing.T) {
	text := write(t, "a.tex", Peer{"peer_1 & co", measured(8)}, Peer{"b", measured(4)})
	for _, want := range []string{
		"\\begin{tabular}{lrr}\n & peer\\_1 \\& co & b \\\\", "slots without this peer & 2 & 1 \\\\", `90.0\%`,
		"\\end{tabular}",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A held-out loss stands where the run was when the model that it is of was made: at its slot, and
// at the tokens of that.
func TestHeldOutLossesHaveTheirPlace(t *testing.T) {
	all, losses := slots(measured(4)), graphs[1]
	for i := range all { // it is measured a slot later
		all[i].HeldOutSlot = uint64(i)
	}
	for i, want := range []float64{0, 400, 800, 1200} {
		if got, _ := losses.point(all, all[i], losses.lines[0]); got != want {
			t.Errorf("slot %d: %v, want %v", i, got, want)
		}
	}
	if got, _ := losses.point(all[2:], all[2], losses.lines[0]); !math.IsNaN(got) {
		t.Errorf("of a slot that is not there: %v", got)
	}
}

func TestOtherEndings(t *testing.T) {
	err := Write(io.Discard, "run.pdf", nil)
	if fmt.Sprint(err) != "run.pdf: the end of the name says what is written: .html, .svg, .csv, .tex" {
		t.Error(err)
	}
}
