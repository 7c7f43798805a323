package twins

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

// hailTime is how long a connection may take to give an answer. One that is dead gives none.
const hailTime = 20 * time.Second

// process is what has answered on a connection.
type process struct {
	conn network.Conn
	s    network.Stream
	hail
}

// ask asks which processes are behind a peer's connections. Of those that answer with different
// nonces, it has two prove to each other that they run.
func (t *Twins) ask(id peer.ID, conns []network.Conn) (by map[string]number) {
	ctx, cancel := context.WithTimeout(t.env.Tasks.Context(), hailTime)
	defer cancel()
	var asking sync.WaitGroup
	answers := make(chan process, len(conns))
	for _, c := range conns {
		asking.Go(func() { answers <- t.hear(ctx, c) })
	}
	by = make(map[string]number)
	var met []process
	for range conns {
		p := <-answers
		if p.s == nil {
			continue
		}
		met = append(met, p)
		by[p.conn.ID()] = p.nonce
		if met[0].nonce != p.nonce {
			t.introduce(id, met[0], p)
			break
		}
	}
	cancel()
	asking.Wait()
	for len(answers) > 0 {
		met = append(met, <-answers)
	}
	for _, p := range met {
		if p.s != nil {
			_ = p.s.Close()
		}
	}
	return by
}

// hear opens a stream on a connection and reads what the process behind it says first. Its stream
// is nil if there is no answer while ctx lasts.
func (t *Twins) hear(ctx context.Context, c network.Conn) process {
	s, err := c.NewStream(network.WithAllowLimitedConn(ctx, "twins"))
	if err != nil {
		return process{}
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Reset() })
	if err = open(s); err == nil {
		h, err := readHail(s)
		if stop() && err == nil {
			return process{c, s, h}
		}
	}
	stop()
	_ = s.Reset()
	return process{}
}

// introduce has two processes of one peer ID prove to each other that they run.
func (t *Twins) introduce(id peer.ID, a, b process) {
	stop := context.AfterFunc(t.env.Tasks.Context(), func() { _ = a.s.Reset(); _ = b.s.Reset() })
	defer stop()
	key, err := id.ExtractPublicKey()
	if err == nil {
		err = exchange(key, a, b)
	}
	if err != nil {
		t.env.Log.Debug("two connections of a peer gave the numbers of two processes, and no proof", "peer", id, "err",
			err)
		return
	}
	t.env.Log.Warn("two processes use one identity at the same time: both were told, and end", "peer", id,
		"first", a.conn.RemoteMultiaddr(), "second", b.conn.RemoteMultiaddr())
}

// exchange carries challenges, signatures and receipts between two processes.
func exchange(key crypto.PubKey, a, b process) error {
	if err := errors.Join(writeAll(a.s, b.challenge[:]), writeAll(b.s, a.challenge[:])); err != nil {
		return fmt.Errorf("giving a challenge: %w", err)
	}
	ofA, ofB := proof{nonce: a.nonce}, proof{nonce: b.nonce}
	if err := errors.Join(readAll(a.s, ofA.sig[:]), readAll(b.s, ofB.sig[:])); err != nil {
		return fmt.Errorf("reading a signature: %w", err)
	}
	if !ofA.holds(key, b.challenge) || !ofB.holds(key, a.challenge) {
		return errNoProof
	}
	if err := errors.Join(writeProof(a.s, ofB), writeProof(b.s, ofA)); err != nil {
		return fmt.Errorf("giving a proof: %w", err)
	}
	// A process that ends takes the other one's connections here with it: see liveness.dropStale.
	if err := errors.Join(readAll(a.s, make([]byte, 1)), readAll(b.s, make([]byte, 1))); err != nil {
		return fmt.Errorf("reading a receipt: %w", err)
	}
	return nil
}
