package twins

import (
	"bytes"
	"crypto/rand"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"golang.org/x/time/rate"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// paper is a stream on which a witness says what was written before.
type paper struct {
	io.Reader
	io.Writer
}

func (paper) CloseWrite() error                { return nil }
func (paper) Close() error                     { return nil }
func (paper) Reset() error                     { return nil }
func (paper) SetDeadline(time.Time) error      { return nil }
func (paper) SetReadDeadline(time.Time) error  { return nil }
func (paper) SetWriteDeadline(time.Time) error { return nil }

// FuzzAnswer: nothing that a witness can have written before it heard the challenge is a proof.
func FuzzAnswer(f *testing.F) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		f.Fatal(err)
	}
	env := Env{Env: peers.Env{Log: slog.New(slog.DiscardHandler), Members: peers.NewMembers(nil)}, Key: key}
	old, another := New(env), draw()
	sig, err := key.Sign(signed(another, old.nonce))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{})
	f.Add(another[:])
	f.Add(bytes.Join([][]byte{another[:], old.nonce[:], sig}, nil))
	f.Fuzz(func(t *testing.T, said []byte) {
		process := New(env)
		process.strangers = rate.NewLimiter(rate.Inf, 0)
		var answer bytes.Buffer
		process.Answer("", paper{bytes.NewReader(said), &answer})
		select {
		case <-process.Found():
			t.Error("taken for a proof")
		default:
		}
		want := 2 * numberSize
		if len(said) >= numberSize {
			want += signatureSize
		}
		if answer.Len() != want {
			t.Errorf("%d bytes of answer to %d bytes, not %d", answer.Len(), len(said), want)
		}
	})
}
