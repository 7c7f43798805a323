package natbench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab/nat"
)

var example = Result{
	Delay: 0.02, Rate: 100e6, Preset: "wan", Limit: 60,
	Pairs: []Pair{
		{
			A: nat.Public, B: nat.NoUDP, Connected: true, First: Way{"direct", "tcp", 1.23},
			Last: Way{"direct", "tcp", 1.23}, Slot: 9.5,
		},
		{
			A: nat.FullCone, B: nat.Symmetric, Connected: true, First: Way{"relayed", "", 2},
			Last: Way{"punched", "quic-v1", 4}, Slot: 0.5,
		},
		{A: nat.Symmetric, B: nat.NoUDP},
		{A: nat.NoUDP, B: nat.NoUDP, Error: "it ended | so\nlog"},
	},
	Four: &Four{
		Parameters: 1 << 20, Peers: []string{"public", "symmetric"},
		Ways: []Pair{{A: nat.Public, B: nat.Symmetric, Connected: true, Last: Way{"direct", "tcp", 0}}},
		Steps: []Step{
			{What: "nothing", Slot: 1, First: 1.5, All: 2.25, Contributors: 4, Equal: true},
			{What: "death", Note: "of whom", Slot: 2, Error: "not within 4m"},
		},
	},
}

func TestTables(t *testing.T) {
	const want = `Links of 100mbit, 20 ms one way between public hosts; peers with ` + "`--preset wan`" + `.

| one | other | connected | after | in the end | after | first slot after |
| --- | --- | --- | --- | --- | --- | --- |
| public | no-udp | direct, tcp | 1.2 s |  |  | 9.5 s |
| full-cone | symmetric | relayed | 2.0 s | punched, quic-v1 | 4.0 s | 500 ms |
| symmetric | no-udp | not connected within 60 s |  |  |  |  |
| no-udp | no-udp | not connected within 60 s |  | failed: it ended / so |  |  |

Four peers (public, symmetric), 4.0 MiB of float32, reduced in every slot. Before the first: public and symmetric direct, tcp.

| slot | what happens to it | first peer has it after | all have it after | contributors | state roots |
| --- | --- | --- | --- | --- | --- |
| 1 | nothing | 1.5 s | 2.2 s | 4 | equal |
| 2 | death (of whom) |  |  | 0 | failed: not within 4m |
`
	if got := example.Markdown(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWhatIsNotConnectedIsNotOK(t *testing.T) {
	for _, p := range []Pair{{Slot: 1}, {Connected: true}} {
		if (Result{Pairs: []Pair{p}}).OK() {
			t.Errorf("%+v is fine", p)
		}
	}
	good := Result{Pairs: example.Pairs[:2], Four: &Four{Steps: example.Four.Steps[:1]}}
	if !good.OK() {
		t.Error("nothing is wrong, but it is not OK")
	}
	for what, four := range map[string]Four{
		"a step failed": {Steps: example.Four.Steps}, "steps are missing": {Error: "no members"},
		"roots differ": {Steps: []Step{{Slot: 1}}},
	} {
		good.Four = &four
		if good.OK() {
			t.Error(what, "and it is OK")
		}
	}
}

func TestWriteKeepsWhatStandsAround(t *testing.T) {
	path := filepath.Join(t.TempDir(), "doc.md")
	if err := os.WriteFile(path, []byte("# Before\n"+markBegin+"old\n"+markEnd+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := example.Write(path); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if want := "# Before\n" + markBegin + example.Markdown() + markEnd + "after\n"; err != nil ||
			string(text) != want {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	if err := os.WriteFile(path, []byte("no marks"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckFile(path); err == nil || !strings.Contains(err.Error(), "two lines") {
		t.Error(err)
	}
}

// TestASlotIsMeasured: times are from the slot's begin, and roots are compared.
func TestASlotIsMeasured(t *testing.T) {
	opened := time.Unix(100, 0)
	peers := []*peer{
		{last: 4, slots: map[uint64]held{4: {"r", opened.Add(3 * time.Second), 3}}},
		{last: 5, slots: map[uint64]held{4: {"r", opened.Add(7 * time.Second), 4}}},
		{last: 5, slots: map[uint64]held{5: {"later", opened, 0}}}, // fetched a later one
	}
	f := &four{opened: opened, peers: peers}
	got := Step{Slot: 4}
	if f.measure(&got); got != (Step{Slot: 4, First: 3, All: 7, Contributors: 4, Equal: true}) {
		t.Errorf("%+v", got)
	}
	peers[2].slots[4], peers[0].last = held{root: "s", at: opened}, 3
	got = Step{Slot: 4}
	if f.measure(&got); got.Equal || got.All != 0 {
		t.Errorf("different roots, and one without: %+v", got)
	}
}
