package nodetest

import (
	"crypto/sha256"
	"sync"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/crypto/pb"
)

// All peers of a swarm verify the same signatures. The answer is kept, so that each is computed
// once in a process: that was a quarter of what the tests cost. What a peer of the swarm has signed
// is true, and is not computed at all.
func init() {
	parse := crypto.PubKeyUnmarshallers[pb.KeyType_Ed25519]
	crypto.PubKeyUnmarshallers[pb.KeyType_Ed25519] = func(b []byte) (crypto.PubKey, error) {
		key, err := parse(b)
		return rememberingKey{key, string(b)}, err
	}
}

// rememberingKey is a public key whose answers are kept.
type rememberingKey struct {
	crypto.PubKey
	raw string
}

// rememberingSigner is a private key whose signatures are known to be true.
type rememberingSigner struct{ crypto.PrivKey }

// question is what a key is asked.
type question struct {
	key, signature string
	data           [sha256.Size]byte // hash of it
}

var verified struct {
	sync.Mutex
	answers map[question]bool
}

const maxVerified = 1 << 16 // answers

func (k rememberingKey) Verify(data, signature []byte) (bool, error) {
	q := question{k.raw, string(signature), sha256.Sum256(data)}
	verified.Lock()
	answer, known := verified.answers[q]
	verified.Unlock()
	if known {
		return answer, nil
	}
	answer, err := k.PubKey.Verify(data, signature)
	if err == nil {
		q.remember(answer)
	}
	return answer, err
}

func (k rememberingSigner) Sign(data []byte) ([]byte, error) {
	signature, err := k.PrivKey.Sign(data)
	if raw, _ := k.GetPublic().Raw(); err == nil {
		question{string(raw), string(signature), sha256.Sum256(data)}.remember(true)
	}
	return signature, err
}

func (q question) remember(answer bool) {
	verified.Lock()
	defer verified.Unlock()
	if verified.answers == nil || len(verified.answers) == maxVerified {
		verified.answers = make(map[question]bool)
	}
	verified.answers[q] = answer
}
