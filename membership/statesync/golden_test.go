package statesync

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/checkpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// The layouts of docs/spec/state.md, written down by hand: peers of other releases, and other
// programs, speak them.
func TestGoldenLayouts(t *testing.T) {
	root, rootHex := slot.Root(bytes.Repeat([]byte{0xab}, 32)), strings.Repeat("ab", 32)
	magic := hex.EncodeToString([]byte("pds1"))
	cases := []struct {
		name string
		got  []byte
		want string
	}{
		{"list request", request{Type: askList}.append(nil), magic + "01 000000" + strings.Repeat("00", 48)},
		{
			"chunk request", request{askChunk, root, 0x40000, 0x80000}.append(nil),
			magic + "02 000000" + rootHex + "0000000000040000 0000000000080000",
		},
		{
			"frames request", request{askFrames, root, 5, 2}.append(nil),
			magic + "03 000000" + rootHex + "0000000000000005 0000000000000002",
		},
		{"head", head{statusOK, zstdPlanes, 0x1000, 0xe00}.append(nil), "01 02 0000 00001000 00000e00"},
		{"not held", head{Status: statusNotHeld}.append(nil), "02 00 0000 00000000 00000000"},
		{"busy", head{Status: statusBusy}.append(nil), "03 00 0000 00000000 00000000"},
		{
			"list", appendList(nil, []checkpoint.Checkpoint{{Height: 9, Slot: 3, Root: root, Size: 64 + 4*1500}}),
			"00000001 0000000000000009 0000000000000003" + rootHex + "00000000000017b0",
		},
		{"hashes", appendHashes(nil, 10, 4, []slot.Root{root}), "000000000000000a 00000004" + rootHex},
	}
	for _, c := range cases {
		if got, want := hex.EncodeToString(c.got), strings.ReplaceAll(c.want, " ", ""); got != want {
			t.Errorf("the layout of a %s has changed:\n got %s\nwant %s", c.name, got, want)
		}
	}
}

// Planes: byte k of every four together; what is left over stays at the end.
func TestGoldenPlanes(t *testing.T) {
	got := make([]byte, 10)
	toPlanes(got, []byte("ABCDabcdxy"))
	if string(got) != "AaBbCcDdxy" {
		t.Errorf("planes %s", got)
	}
}
