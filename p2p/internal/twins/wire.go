package twins

import (
	"crypto/rand"
	"io"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multistream"
)

// Protocol is the ID of the streams on which a witness asks the processes behind one peer ID.
const Protocol = "/p2pdiloco/twin/1.0.0"

// signedPrefix begins what is signed here, and nothing else that is signed with a peer's key.
const signedPrefix = "p2pdiloco/twin/1"

const (
	numberSize    = 32
	signatureSize = 64 // of Ed25519
	streamTime    = time.Minute
)

// number is a random number: the nonce of a process, or a challenge.
type number [numberSize]byte

func draw() (n number) {
	_, _ = rand.Read(n[:]) // it never fails
	return n
}

// hail is what a process says first on a stream.
type hail struct{ nonce, challenge number }

// proof is that the process with a nonce has signed a challenge.
type proof struct {
	nonce number
	sig   [signatureSize]byte
}

// signed are the bytes that the process with a nonce signs for a challenge.
func signed(challenge, nonce number) []byte {
	b := append([]byte(signedPrefix), challenge[:]...)
	return append(b, nonce[:]...)
}

// holds says whether the owner of a key has signed a challenge.
func (p proof) holds(key crypto.PubKey, challenge number) bool {
	ok, err := key.Verify(signed(challenge, p.nonce), p.sig[:])
	return err == nil && ok
}

func readHail(r io.Reader) (h hail, err error) { return h, readAll(r, h.nonce[:], h.challenge[:]) }

func writeHail(w io.Writer, h hail) error { return writeAll(w, h.nonce[:], h.challenge[:]) }

func readProof(r io.Reader) (p proof, err error) { return p, readAll(r, p.nonce[:], p.sig[:]) }

func writeProof(w io.Writer, p proof) error { return writeAll(w, p.nonce[:], p.sig[:]) }

func readAll(r io.Reader, parts ...[]byte) error {
	for _, b := range parts {
		if _, err := io.ReadFull(r, b); err != nil {
			return err
		}
	}
	return nil
}

func writeAll(w io.Writer, parts ...[]byte) error {
	var all []byte
	for _, b := range parts {
		all = append(all, b...)
	}
	_, err := w.Write(all)
	return err
}

// open begins the protocol on a stream of one connection: Host.NewStream would take any of them.
func open(s network.Stream) error {
	if err := s.SetDeadline(time.Now().Add(streamTime)); err != nil {
		return err
	}
	if err := s.SetProtocol(Protocol); err != nil {
		return err
	}
	return multistream.SelectProtoOrFail(protocol.ID(Protocol), s)
}
