package p2p

import "github.com/libp2p/go-libp2p/core/host"

// Option changes how New works in ways that need libp2p types.
type Option func(*options)

type options struct{ host host.Host }

// WithHost uses a host that exists already. It keeps its identity, addresses and limits, is not
// closed by Close, and its private key must be in its peerstore. Config's IdentityFile and Listen
// are not used. Traffic counts only what goes through streams of the Network, since the host's own
// counter is out of reach.
func WithHost(h host.Host) Option { return func(o *options) { o.host = h } }
