package p2p

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

func TestIdentityStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sub", "identity.key")
	first, err := loadIdentity(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := loadIdentity(file)
	if err != nil || !first.Equals(again) {
		t.Errorf("the second start has another identity: %v", err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if names, _ := os.ReadDir(filepath.Dir(file)); len(names) != 1 {
		t.Errorf("%d files are left, want the identity alone", len(names))
	}
}

func TestIdentityMadeOnceByMany(t *testing.T) {
	file := filepath.Join(t.TempDir(), "identity.key")
	keys := make([]crypto.PrivKey, 8)
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			var err error
			if keys[i], err = loadIdentity(file); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k == nil || !k.Equals(keys[0]) {
			t.Fatal("processes that start together have different identities")
		}
	}
}

func TestIdentityIsNeverReplaced(t *testing.T) {
	rsa, _, err := crypto.GenerateRSAKeyPair(2048, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	wrongType, err := crypto.MarshalPrivateKey(rsa)
	if err != nil {
		t.Fatal(err)
	}
	flipped := func(at int) []byte {
		key, err := newKey()
		if err != nil {
			t.Fatal(err)
		}
		b, err := crypto.MarshalPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		b[at] ^= 4
		return b
	}
	for name, content := range map[string][]byte{
		"flipped in the seed": flipped(10), "flipped in the public key": flipped(50), "empty": nil,
		"garbage": []byte("garbage"), "wrong type": wrongType, "huge": make([]byte, 1<<20),
	} {
		file := filepath.Join(t.TempDir(), "identity.key")
		noError(t, os.WriteFile(file, content, 0o600))
		_, err := New(t.Context(), Config{IdentityFile: file})
		if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "backup") {
			t.Errorf("%s: error %v; it should name the file and say what to do", name, err)
		}
		if now, _ := os.ReadFile(file); !bytes.Equal(now, content) {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func FuzzParseIdentity(f *testing.F) {
	key, err := newKey()
	if err != nil {
		f.Fatal(err)
	}
	b, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		key, err := parseIdentity(b)
		if err == nil && key.Type() != crypto.Ed25519 {
			t.Errorf("a key of type %s was accepted", key.Type())
		}
	})
}

func TestVerify(t *testing.T) {
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	data := []byte("vote")
	sig, err := key.Sign(data)
	if err != nil {
		t.Fatal(err)
	}
	secp, _, err := crypto.GenerateSecp256k1Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secpID, err := peer.IDFromPrivateKey(secp)
	if err != nil {
		t.Fatal(err)
	}
	secpSig, err := secp.Sign(data)
	if err != nil {
		t.Fatal(err)
	}
	if !Verify(slot.PeerID(id), data, sig) {
		t.Error("a good signature is refused")
	}
	for what, is := range map[string]bool{
		"other data":          Verify(slot.PeerID(id), []byte("veto"), sig),
		"other signature":     Verify(slot.PeerID(id), data, append([]byte{sig[0] ^ 1}, sig[1:]...)),
		"no signature":        Verify(slot.PeerID(id), data, nil),
		"no peer":             Verify("", data, sig),
		"garbage peer":        Verify("garbage", data, sig),
		"another kind of key": Verify(slot.PeerID(secpID), data, secpSig),
	} {
		if is {
			t.Errorf("%s is taken", what)
		}
	}
}
