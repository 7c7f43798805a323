package peers

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/sim"
)

// dialling is an Env whose dialer dials when it is told to, and started.
type dialling struct{ Env }

func envOf(t *testing.T, h host.Host, cfg DialConfig) *dialling {
	t.Helper()
	group := NewGroup(context.Background())
	nobody := func(context.Context, peer.ID) (peer.AddrInfo, error) { return peer.AddrInfo{}, errors.New("not found") }
	t.Cleanup(func() {
		group.Stop()
		group.Wait()
	})
	return &dialling{NewEnv(h, group, nobody, cfg, slog.New(slog.DiscardHandler))}
}

// dials is the Env of simulated host i.
func dials(t *testing.T, s *sim.Net, i int, cfg DialConfig) *dialling {
	t.Helper()
	return envOf(t, s.Hosts[i], cfg)
}

// alone is the Env of a host that listens nowhere.
func alone(t *testing.T, cfg DialConfig) *dialling {
	t.Helper()
	h, err := libp2p.New(libp2p.NoListenAddrs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return envOf(t, h, cfg)
}

// remembers puts a peer into the address book, as its file does.
func (n *dialling) remembers(id peer.ID, addrs ...multiaddr.Multiaddr) {
	n.Book.mu.Lock()
	defer n.Book.mu.Unlock()
	n.Book.mu.peers[id] = remembered{ID: id, Addrs: addrs}
}

// with has f look at the dialer's state.
func (n *dialling) with(f func(d *Dialer)) {
	n.Dialer.mu.Lock()
	defer n.Dialer.mu.Unlock()
	f(n.Dialer)
}

// due has the dials begun that are to be now, and fail. It says to whom they were.
func (n *dialling) due() (ids []peer.ID) {
	now := time.Now()
	n.with(func(d *Dialer) {
		d.remind(now)
		for id, t := range d.mu.targets {
			if t.once {
				t.once = false
				ids = append(ids, id)
				d.failed(t, now)
			}
		}
	})
	return ids
}

// untilRound is how long it is until remembered peers are dialled again.
func (n *dialling) untilRound() (wait time.Duration) {
	n.with(func(d *Dialer) { wait = time.Until(d.mu.round) })
	return wait
}

func peerOf(t *testing.T) peer.ID {
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

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
