package p2p

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// maxIdentityFile bounds what is read of an identity file. An Ed25519 key takes 68 bytes.
const maxIdentityFile = 4096

// loadIdentity reads the key in path, or makes one there if the file is missing. It never changes a
// file that exists.
func loadIdentity(path string) (crypto.PrivKey, error) {
	if path == "" {
		return newKey()
	}
	b, err := disk.ReadSecret(disk.OS, path, maxIdentityFile)
	if errors.Is(err, os.ErrNotExist) {
		return createIdentity(path)
	}
	if errors.Is(err, disk.ErrExposed) {
		return nil, fmt.Errorf("identity file %w", err)
	}
	if err != nil {
		return nil, identityError(path, err)
	}
	key, err := parseIdentity(b)
	if err != nil {
		return nil, identityError(path, err)
	}
	return key, nil
}

// IdentityIn is the peer ID of the key in a file, which is made if it is missing.
func IdentityIn(file string) (slot.PeerID, error) {
	key, err := loadIdentity(file)
	if err != nil {
		return "", err
	}
	id, err := peer.IDFromPrivateKey(key)
	return slot.PeerID(id), err
}

func newKey() (crypto.PrivKey, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	return key, err
}

func createIdentity(path string) (crypto.PrivKey, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	b, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		return nil, err
	}
	err = disk.Create(disk.OS, path, b)
	if errors.Is(err, os.ErrExist) {
		return loadIdentity(path) // another process was faster; its key stands
	}
	if err != nil {
		return nil, fmt.Errorf("identity file %s could not be made: %w; choose a folder that can be written", path, err)
	}
	return key, nil
}

// parseIdentity reads an identity file's contents: a private key as libp2p marshals it, which must
// be Ed25519.
func parseIdentity(b []byte) (crypto.PrivKey, error) {
	if len(b) == 0 {
		return nil, errors.New("it is empty")
	}
	key, err := crypto.UnmarshalPrivateKey(b)
	if err != nil {
		return nil, fmt.Errorf("it holds no key: %w", err)
	}
	if key.Type() != crypto.Ed25519 {
		return nil, fmt.Errorf("it holds a key of type %s where Ed25519 is needed", key.Type())
	}
	raw, err := key.Raw() // seed and public key: a flipped bit in either makes them disagree
	if err != nil || len(raw) != ed25519.PrivateKeySize ||
		!bytes.Equal(ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize]), raw) {
		return nil, errors.New("it is damaged: its two halves do not belong together")
	}
	return key, nil
}

func identityError(path string, err error) error {
	return fmt.Errorf("identity file %s cannot be used: %w; put the right file back from a backup, or move this one "+
		"away to start as a new peer", path, err)
}

// Verify says whether sig is peer's signature over data. Only Ed25519 peer IDs, which embed their
// key, have signatures here.
func Verify(from slot.PeerID, data, sig []byte) bool {
	id, err := peer.IDFromBytes([]byte(from))
	if err != nil {
		return false
	}
	key, err := id.ExtractPublicKey()
	if err != nil || key.Type() != crypto.Ed25519 {
		return false
	}
	ok, err := key.Verify(data, sig)
	return err == nil && ok
}
