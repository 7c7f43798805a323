package hops

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

func someID(t testing.TB) peer.ID {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestHeaderLayout(t *testing.T) {
	id := someID(t)
	b := header{legArrive, id}.append(nil)
	if want := append([]byte{2, 0, 0, 0, byte(len(id))}, id...); !bytes.Equal(b, want) {
		t.Fatalf("a header is %x, want %x", b, want)
	}
	if h, err := parseHeader(b); err != nil || h.leg != legArrive || h.peer != id {
		t.Errorf("%v, %v", h, err)
	}
	for what, bad := range map[string][]byte{
		"nothing": nil, "no peer": {1, 0, 0, 0, 0}, "leg 0": append([]byte{0}, b[1:]...),
		"leg 3": append([]byte{3}, b[1:]...), "cut off": b[:len(b)-1], "one byte more": append(bytes.Clone(b), 0),
		"no ID": wire.AppendBytes([]byte{1}, "not a multihash"),
		"long":  wire.AppendBytes([]byte{1}, strings.Repeat("x", 65)),
	} {
		if h, err := parseHeader(bad); err == nil {
			t.Errorf("%s: taken for %v", what, h)
		}
	}
}

// FuzzHeader: what is read is what would have been written.
func FuzzHeader(f *testing.F) {
	f.Add(header{legForward, someID(f)}.append(nil))
	f.Add(header{legArrive, "\x12\x20" + peer.ID(strings.Repeat("h", 32))}.append(nil))
	f.Add([]byte{1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeader(b)
		if err == nil && !bytes.Equal(h.append(nil), b) {
			t.Errorf("%x is read as %v", b, h)
		}
	})
}
