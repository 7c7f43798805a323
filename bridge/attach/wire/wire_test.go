package wire

import (
	"bytes"
	"encoding/hex"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// golden are messages with their ids. The Python and C clients read the same files.
var golden = []struct {
	file string
	id   uint64
	m    Message
}{
	{"hello", 1, &Hello{Version: Version, Rank: 1, World: 2, Set: "set-1", Run: "my-run", Client: "python 0.1"}},
	{"hello-rank-0", 1, &Hello{Version: Version, World: 1, Set: "pid 71"}},
	{"hello-saves", 1, &Hello{Version: Version, World: 1, Set: "pid 71", Saves: 1, State: 4}},
	{"welcome", 1, &Welcome{Version: Version, Run: "my-run", DataDir: "/data/my-run", PID: 4711}},
	{"layout-boxes", 2, &Layout{
		Tensors: []Tensor{
			{trainer.Tensor{Name: "wte", Shape: []uint64{256, 96}}, F32},
			{trainer.Tensor{Name: "b", Shape: []uint64{}}, BF16},
		},
		Pieces: []Piece{
			{Offsets: []uint64{128, 0}, Extents: []uint64{128, 96}, Tensor: 0},
			{Tensor: 1, Offsets: []uint64{}, Extents: []uint64{}},
		},
	}},
	{"layout-flat", 2, &Layout{
		Tensors: []Tensor{{trainer.Tensor{Name: "w", Shape: []uint64{10}}, F16}},
		Pieces:  []Piece{{Flat: true, Offsets: []uint64{7}, Extents: []uint64{3}}},
	}},
	{"share", 2, &Share{Elements: 24577, Offset: 65536, Size: 163844, Epoch: 3, Writes: []byte{1, 0}}},
	{"info", 0, &Info{
		RunID: "abcd", Peer: "12D3", Mode: "sync", InnerSteps: 500, LastSlot: 100, Spec: `{"name":"my-run"}`,
	}},
	{"info-ended", 0, &Info{
		RunID: "abcd", Peer: "12D3", Mode: "sync", InnerSteps: 500, LastSlot: 100, Slot: 100, Root: "4b88",
	}},
	{"fill", 1, &Fill{}},
	{"load", 2, &Load{End: 24577, Generation: 2}},
	{"load-range", 3, &Load{Begin: 96, End: 192, Generation: 4}},
	{"export", 4, &Export{Begin: 96, End: 192, Kind: ExportParams}},
	{"evaluate", 5, &Evaluate{}},
	{"evaluate-prompt", 5, &Evaluate{Prompt: "Once upon"}},
	{"restore", 7, &Restore{Folder: "/data/my-run/trainer/3", World: 2}},
	{"train", 8, &Train{
		Slot: 4, Steps: 500, Look: 12, Export: ExportGradient, Seed: 7, Member: 1, Members: 3, Part: 10, PartSteps: 500,
		PartDone: 20, Delay: 5,
	}},
	{"train-save", 8, &Train{Slot: 1, Steps: 1, Members: 1, Save: "/data/my-run/trainer/3-0-0-1-5e5e"}},
	{"train-step", 8, &Train{Slot: 3, Steps: 500, Members: 1, Step: 1000, TotalSteps: 10_000}},
	{"train-members", 8, &Train{Slot: 1, Steps: 1, Members: 2, MemberIDs: "12D3a\n12D3b"}},
	{"done", 7, &Done{}},
	{"done-evaluated", 5, &Done{Loss: 2.5}},
	{"done-unsupported", 6, &Done{Status: StatusUnsupported}},
	{"done-failed", 6, &Done{Status: StatusFailed, Text: "no space left"}},
	{"offer", 8, &Offer{Steps: 500, Tokens: 64000, Samples: 2000, Loss: 3.25, GradNorm: 0.5, Seconds: 12.75}},
	{"at", 9, &At{Train: 8, Steps: 12}},
	{"go", 9, &Go{Look: 24}},
	{"go-give-up", 9, &Go{Answer: GiveUp}},
	{"notice", 0, &Notice{Level: NoticeWarn, Text: "no quorum: paused"}},
	{"ping", 10, &Ping{}},
	{"pong", 10, &Pong{}},
	{"leave", 11, &Leave{Reason: "the training loop has ended", Run: 1}},
	{"error", 0, &Error{Code: CodeBusy, Text: "pid 71 trains this run here: give data_dir= for a second peer"}},
}

// The bytes of every type are those of the golden files, and are read back as what they were.
func TestGolden(t *testing.T) {
	covered := map[Type]bool{}
	for _, g := range golden {
		b := Append(nil, g.id, g.m)
		path := filepath.Join("..", "testdata", "wire", g.file+".hex")
		testutil.Golden(t, path, lines(b))
		h, m, err := Read(bytes.NewReader(b))
		if err != nil || h.ID != g.id || h.Type != TypeOf(g.m) || !reflect.DeepEqual(m, g.m) {
			t.Errorf("%s: %+v %+v %v", g.file, h, m, err)
		}
		covered[h.Type] = true
	}
	if len(covered) != len(kinds) {
		t.Errorf("%d of %d types", len(covered), len(kinds))
	}
}

// lines has 16 bytes in each.
func lines(b []byte) string {
	var s strings.Builder
	for len(b) > 0 {
		n := min(16, len(b))
		s.WriteString(hex.EncodeToString(b[:n]) + "\n")
		b = b[n:]
	}
	return s.String()
}

func body(hexes ...string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Join(hexes, ""), " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// What a later minor version adds is skipped: tags and types.
func TestUnknownIsSkipped(t *testing.T) {
	m, err := Parse(TypeAt, body("6300 0000 03000000 010203", "0200 0000 08000000 0c00000000000000"))
	if at, ok := m.(*At); err != nil || !ok || at.Steps != 12 || at.Train != 0 {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := Parse(999, body("01")); m != nil || err != nil {
		t.Errorf("%+v, %v", m, err)
	}
}

// What is wrong is told by its text.
func TestMalformed(t *testing.T) {
	for _, c := range []struct {
		t    Type
		body []byte
		want string
	}{
		{TypeAt, body("01"), "AT: malformed message: 1 bytes after the last field"},
		{TypeAt, body("0100 0000 04000000 0c000000"), "a number of 4 bytes: 8 are allowed"},
		{TypeAt, body("0100 0100 00000000"), "which must be 0"},
		{TypeAt, body("0100 0000 09000000 0c00000000000000"), "field 1 of 9 bytes"},
		{TypeAt, body(strings.Repeat("0100 0000 08000000 0c00000000000000", 2)), "twice"},
		{TypeLeave, body("0100 0000 02000000 c328"), "UTF-8"},
		{TypeLayout, body("0100 0000 04000000 01000000"), "a tensor of 4 bytes"},
		{TypeLayout, body("0100 0000 08000000 0100000009000000"), "a tensor of 9 dimensions"},
		{TypeLayout, body("0100 0000 08000000 0100000001000000"), "a tensor of 1 dimensions in 0 bytes"},
		{TypeLayout, body("0100 0000 09000000 0400000000000000 41"), "a tensor of type 4"},
		{TypeLayout, body("0100 0000 09000000 0100000000000000 ff"), "a tensor name of 1 bytes"},
		{TypeLayout, body("0200 0000 08000000 0000000000000000"), "a piece of 8 bytes"},
		{TypeLayout, body("0200 0000 10000000 0000000000000000 0100000000000000"), "a piece of form 1 with 0 offsets"},
		{TypeLayout, body("0200 0000 10000000 0000000000000000 0200000000000000"), "a piece of form 2"},
	} {
		if _, err := Parse(c.t, c.body); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%x: %v, wanted %s", c.body, err, c.want)
		}
	}
	for want, head := range map[string][]byte{
		"at most 67108864": body("01000004 1900 0000 0000000000000000"),
		"with flags 0x1":   body("00000000 1900 0100 0000000000000000"),
	} {
		if _, err := ParseHeader([HeaderSize]byte(head)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%x: %v, wanted %s", head, err, want)
		}
	}
}

// Whatever comes, a parser returns, and what it accepts it writes as it reads it.
func FuzzParse(f *testing.F) {
	for _, g := range golden {
		f.Add(Append(nil, g.id, g.m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, m, err := Read(bytes.NewReader(b))
		if err != nil || m == nil {
			return
		}
		again := Append(nil, h.ID, m)
		h2, m2, err := Read(bytes.NewReader(again))
		if err != nil || h2.ID != h.ID || h2.Type != h.Type || !bytes.Equal(Append(nil, h2.ID, m2), again) {
			t.Errorf("%x became %x: %v", b, again, err)
		}
	})
}
