package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
)

// connectTimeout bounds connecting to one peer, knownTimeout that at the addresses that are known.
const connectTimeout, knownTimeout = 15 * time.Second, 5 * time.Second

// Lookup asks others where a peer is. What they say goes into the host's peerstore.
type Lookup func(ctx context.Context, id peer.ID) (peer.AddrInfo, error)

// Dialer connects to peers: by itself to those that are to be connected (targets.go), and when it
// is asked to. It ends dials to peers that have connected by themselves meanwhile. libp2p does not:
// it dials a peer that died at its old addresses, over QUIC for seconds. When that peer starts
// again and connects, everything that is sent to it would wait for the old dial.
type Dialer struct {
	env    Env // but for the Dialer
	cfg    DialConfig
	lookup Lookup
	wake   Signal // of the loop
	mu     struct {
		sync.Mutex
		dialling map[peer.ID]map[*context.CancelFunc]struct{}
		targets  map[peer.ID]*target
		nodes    []peer.ID // bootstrap nodes
		boot     BootstrapState
		dials    int       // of targets, under way
		round    time.Time // when remembered peers are next dialled
	}
}

func newDialer(env Env, lookup Lookup, cfg DialConfig) *Dialer {
	d := &Dialer{env: env, cfg: cfg, lookup: lookup, wake: NewSignal()}
	d.mu.dialling = make(map[peer.ID]map[*context.CancelFunc]struct{})
	d.mu.targets = make(map[peer.ID]*target)
	_ = d.AddBootstrap(cfg.Bootstrap) // Validate has refused what does not parse
	env.Notify(&network.NotifyBundle{
		ConnectedF: func(_ network.Network, c network.Conn) {
			if !c.Stat().Limited {
				d.connected(c.RemotePeer(), time.Now())
				d.Restart(c.RemotePeer()) // the dial sees the connection and ends
			}
		},
		DisconnectedF: func(_ network.Network, c network.Conn) {
			if !d.env.Connected(c.RemotePeer()) {
				d.lost(c.RemotePeer(), time.Now())
			}
		},
	})
	return d
}

// Start begins to dial, and to write the peers file.
func (d *Dialer) Start() {
	d.env.Tasks.Go(d.env.Book.run)
	d.env.Tasks.Go(d.run)
}

// Until is ctx until the peer connects or Restart is called. The function returned must be called
// when the dial is over.
func (d *Dialer) Until(ctx context.Context, id peer.ID) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.dialling[id] == nil {
		d.mu.dialling[id] = make(map[*context.CancelFunc]struct{})
	}
	d.mu.dialling[id][&cancel] = struct{}{}
	return ctx, func() {
		cancel()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.mu.dialling[id], &cancel)
		if len(d.mu.dialling[id]) == 0 {
			delete(d.mu.dialling, id)
		}
	}
}

// Restart begins the dials to a peer that are under way again.
func (d *Dialer) Restart(id peer.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for cancel := range d.mu.dialling[id] {
		(*cancel)()
	}
}

// Dial has a connection to the peer when it returns nil, no matter which side made it. A connection
// through a limited relay is enough: small things pass there, and it may be the first step to a
// better one.
func (d *Dialer) Dial(ctx context.Context, to peer.AddrInfo) (err error) {
	began := time.Now()
	defer func() { d.note(to.ID, began, err) }()
	for {
		again, err := d.once(ctx, to)
		switch {
		case err != nil && d.env.reached(to.ID):
			return nil
		case !again || ctx.Err() != nil:
			return err
		}
		d.ForgetFailures(to.ID)
	}
}

// once dials, and says whether the dial ended because it is to begin again.
func (d *Dialer) once(ctx context.Context, to peer.AddrInfo) (again bool, err error) {
	dialling, over := d.Until(ctx, to.ID)
	defer over()
	err = d.env.Host.Connect(network.WithAllowLimitedConn(dialling, "small things"), to)
	return err != nil && dialling.Err() != nil, err
}

// Connect is Dial that looks for other addresses where the known ones fail.
func (d *Dialer) Connect(ctx context.Context, to peer.AddrInfo) error {
	if to.ID == d.env.Host.ID() {
		return errors.New("that is this peer itself")
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, over := d.Until(ctx, to.ID) // while others are asked, too
	defer over()
	known, cancel := context.WithTimeout(ctx, knownTimeout)
	defer cancel()
	err := d.Dial(known, to)
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The lookup reports a peer as not found that it could not dial at the old addresses, but it
	// has learned the new ones by then.
	if _, err := d.lookup(ctx, to.ID); err != nil {
		d.env.Log.Debug("looking up a peer's addresses", "peer", to.ID, "err", err)
	}
	if len(d.env.Host.Peerstore().Addrs(to.ID)) == 0 {
		return err
	}
	return d.Dial(ctx, peer.AddrInfo{ID: to.ID})
}

// ForgetFailures lets the next dial of a peer happen at once: libp2p holds failed addresses back
// for 5 s and more, and for minutes after many failures.
func (d *Dialer) ForgetFailures(id peer.ID) {
	if s, ok := d.env.Host.Network().(*swarm.Swarm); ok {
		s.Backoff().Clear(id)
	}
}

// Fault is why a peer could not be dialled, in as many words as a terminal has room for: libp2p
// says it in a line for each address, with the ID of the peer twice in front, and in other words
// for each transport.
type Fault struct {
	Peer peer.ID
	Err  error
}

func (e *Fault) Unwrap() error { return e.Err }

func (e *Fault) Error() string {
	var tried *swarm.DialError
	if !errors.As(e.Err, &tried) || len(tried.DialErrors) == 0 {
		return fmt.Sprintf("%s: %s", e.Peer, plainly(e.Err))
	}
	parts := make([]string, len(tried.DialErrors))
	for i, d := range tried.DialErrors {
		parts[i] = fmt.Sprintf("%s: %s", d.Address, plainly(d.Cause))
	}
	return strings.Join(parts, ", ")
}

// plainly is what went wrong with a dial.
func plainly(err error) string {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
		return errno.Error() // "connection refused", "no route to host", "network is unreachable"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		strings.Contains(err.Error(), "no recent network activity"):
		return "no answer"
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
