package gossip

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/protocol"
)

// The layout of docs/spec/connections.md, by hand.
func TestGoldenAnnouncement(t *testing.T) {
	a := announcement{kind: 1, boot: 2, counter: 0x0102030405060708, body: []byte("hi")}
	want := "01" + "0000000000000002" + "0102030405060708" + "00000002" + "6869"
	if got := hex.EncodeToString(a.append(nil)); got != want {
		t.Errorf("the layout has changed:\n got %s\nwant %s", got, want)
	}
	if got, want := protocolOf("/p2pdiloco/run/x"),
		protocol.ID("/p2pdiloco/gossip-13a733abd640c953/1.0.0"); got != want {
		t.Errorf("the topic's protocol is %s, want %s", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	good := announcement{kind: 1, body: []byte("body")}.append(nil)
	for name, b := range map[string][]byte{
		"nothing":   nil,
		"truncated": good[:len(good)-1],
		"too long":  append(bytes.Clone(good), 0),
		"oversized": announcement{kind: 1, body: make([]byte, MaxBody+1)}.append(nil),
	} {
		if _, err := parse(b); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestValidateNamesEveryFault(t *testing.T) {
	err := Config{Heartbeat: -1}.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"topic name", "kind", "Deliver", "Heartbeat"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(announcement{kind: 1, boot: 2, counter: 3, body: []byte("body")}.append(nil))
	f.Add(announcement{}.append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parse(b)
		if err == nil && !bytes.Equal(a.append(nil), b) {
			t.Errorf("%x parses but is not canonical", b)
		}
	})
}
