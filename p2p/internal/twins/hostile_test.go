package twins

import (
	"crypto/rand"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// signs is the signature of a process for a challenge, as a witness gets it.
func signs(t *testing.T, s network.Stream, challenge number) (sig [signatureSize]byte) {
	t.Helper()
	if err := writeAll(s, challenge[:]); err != nil {
		t.Fatal(err)
	}
	if err := readAll(s, sig[:]); err != nil {
		t.Fatal(err)
	}
	return sig
}

// refused says that a process ends a stream on which it is given a proof.
func refused(t *testing.T, s network.Stream, p proof) bool {
	t.Helper()
	if err := writeProof(s, p); err != nil {
		return true
	}
	_, err := s.Read(make([]byte, 1))
	return err != nil
}

// TestALyingWitness has everything that one process alone has signed, in this life and in earlier
// ones, and a key of its own. None of it is a proof.
func TestALyingWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := sim.New(t, 0, 5*time.Millisecond), newKey(t)
		liar := start(t, s, newKey(t))
		early := start(t, s, key)
		early.connect(t, s, liar)
		stream, before := liar.open(t, early)
		guess := draw()
		old := proof{before.nonce, signs(t, stream, guess)}
		early.end()

		life := start(t, s, key)
		life.connect(t, s, liar)
		another, now := liar.open(t, life)
		third, later := liar.open(t, life)
		if now.nonce != later.nonce || now.challenge == later.challenge || now.nonce == before.nonce {
			t.Fatal("a process has one nonce of its own, and a challenge for each stream")
		}
		// what it signs itself on one stream, given back on the other
		own := proof{now.nonce, signs(t, another, later.challenge)}
		if !own.holds(key.GetPublic(), later.challenge) {
			t.Fatal("a process did not sign")
		}
		_ = signs(t, third, now.challenge)
		if !refused(t, third, own) {
			t.Error("a process takes its own signature for another one's")
		}
		renamed := own
		renamed.nonce = before.nonce
		for name, p := range map[string]proof{
			"what an earlier life has signed": old, "its own signature under another nonce": renamed,
			"nothing": {}, "a liar's signature": {draw(), signedBy(t, liar.env.Key, now)},
		} {
			stream, h := liar.open(t, life)
			_ = signs(t, stream, h.challenge)
			if !refused(t, stream, p) {
				t.Errorf("accepted: %s", name)
			}
		}
		time.Sleep(time.Minute)
		if life.isTwin() {
			t.Error("a claim of another peer is taken for a proof")
		}
		// and what is one
		stream, h := liar.open(t, life)
		_ = signs(t, stream, h.challenge)
		if refused(t, stream, proof{before.nonce, signedBy(t, key, hail{before.nonce, h.challenge})}) {
			t.Error("a proof is refused")
		}
		time.Sleep(endPatience + time.Second)
		if !life.isTwin() {
			t.Error("a proof counts for nothing")
		}
	})
}

// signedBy is what the owner of a key would sign for a challenge.
func signedBy(t *testing.T, key crypto.PrivKey, h hail) (sig [signatureSize]byte) {
	t.Helper()
	b, err := key.Sign(signed(h.challenge, h.nonce))
	if err != nil {
		t.Fatal(err)
	}
	return [signatureSize]byte(b)
}

// TestSignaturesAreBounded: a stranger gets some signatures, then none for a while; members get
// theirs all the same.
func TestSignaturesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sim.New(t, 0, time.Millisecond)
		stranger, member, asked := start(t, s, newKey(t)), start(t, s, newKey(t)), start(t, s, newKey(t))
		stranger.connect(t, s, asked)
		member.connect(t, s, asked)
		asked.env.Members.Set(setOf(member.host.ID()))
		count := func(by *node, tries int) (got int) {
			for range tries {
				stream, _ := by.open(t, asked)
				c := draw()
				if err := writeAll(stream, c[:]); err == nil && readAll(stream, make([]byte, signatureSize)) == nil {
					got++
				}
				_ = stream.Reset()
			}
			return got
		}
		if got := count(stranger, 200); got < strangerBurst || got > strangerBurst+2*strangerSigns {
			t.Errorf("a stranger got %d signatures", got)
		}
		if got := count(member, 50); got != 50 {
			t.Errorf("a member got %d signatures of 50", got)
		}
	})
}

// TestSilentPeers: whoever gives no answer, half of one, or junk, holds a witness up for a while,
// and is asked less and less often.
func TestSilentPeers(t *testing.T) {
	for name, says := range map[string]int{
		"nothing": 0, "half of it": numberSize, "no signature": 2 * numberSize,
		"junk": 2*numberSize + signatureSize + 1,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, key := sim.New(t, 0, 5*time.Millisecond), newKey(t)
				witness, first, second := start(t, s, newKey(t)), start(t, s, key), start(t, s, key)
				var asked atomic.Int64
				for _, n := range []*node{first, second} {
					n.host.SetStreamHandler(Protocol, func(s network.Stream) {
						asked.Add(1)
						b := make([]byte, says)
						_, _ = rand.Read(b)
						_, _ = s.Write(b)
						_, _ = io.Copy(io.Discard, s)
						_ = s.Reset()
					})
					n.connect(t, s, witness)
				}
				time.Sleep(time.Hour)
				if n, most := asked.Load(), 2*(int64(time.Hour/mostPause)+8); n < 2 || n > most {
					t.Errorf("asked %d times in an hour, of at most %d", n, most)
				}
				if witness.log.has(toldBy) {
					t.Error("the witness says that there is a proof")
				}
			})
		})
	}
}

// TestWhoIsNotAdmittedIsNotAsked: a private run opens no streams to strangers.
func TestWhoIsNotAdmittedIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, key := sim.New(t, 0, 5*time.Millisecond), newKey(t)
		witness, first, second := start(t, s, newKey(t)), start(t, s, key), start(t, s, key)
		var admitted atomic.Bool
		witness.env.Admits = func(peer.ID) bool { return admitted.Load() }
		first.connect(t, s, witness)
		second.connect(t, s, witness)
		time.Sleep(time.Minute)
		if first.isTwin() || second.isTwin() {
			t.Error("a peer that is not admitted was asked")
		}
		admitted.Store(true)
		time.Sleep(time.Minute)
		if !first.isTwin() || !second.isTwin() {
			t.Error("an admitted peer was not asked")
		}
	})
}
