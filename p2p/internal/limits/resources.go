package limits

import (
	"math"
	"net/netip"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	"github.com/libp2p/go-libp2p/x/rate"
)

// libp2p's defaults allow 8 connections from one address, and new ones at 0.2 a second. Whole
// swarms live behind one address (a lab, a rented cluster), so these allow the largest run from a
// single one. They still bound what one address can take.
const (
	connsPerAddress    = 4096 // of IPv6 a /48: 64 peers with all their bulk connections
	newConnsPerSecond  = 32
	newConnsBurst      = connsPerAddress
	streamsPerPeer     = 1024
	streamsPerProtocol = 16384
	peerMemory         = 512 << 20 // yamux windows of up to 16 MiB a stream
	transientConns     = 1024      // connections still shaking hands
	systemConns        = 8192
	systemStreams      = 1 << 16
)

// NewResourceManager makes the resource manager of a host on which a pair of peers has so many bulk
// connections each way.
func NewResourceManager(bulkConns int) (network.ResourceManager, error) {
	defaults := rcmgr.DefaultLimits
	libp2p.SetDefaultServiceLimits(&defaults)
	limits := ourLimits(rcmgr.LimitVal(8 + 2*bulkConns)).Build(defaults.AutoScale())
	return rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(limits),
		rcmgr.WithMetricsDisabled(),
		rcmgr.WithLimitPerSubnet(
			[]rcmgr.ConnLimitPerSubnet{{PrefixLength: 32, ConnCount: connsPerAddress}},
			[]rcmgr.ConnLimitPerSubnet{{PrefixLength: 48, ConnCount: connsPerAddress}},
		),
		rcmgr.WithNetworkPrefixLimit(
			[]rcmgr.NetworkPrefixLimit{{Network: netip.MustParsePrefix("127.0.0.0/8"), ConnCount: math.MaxInt}},
			[]rcmgr.NetworkPrefixLimit{{Network: netip.MustParsePrefix("::1/128"), ConnCount: math.MaxInt}},
		),
		rcmgr.WithConnRateLimiters(newConnRates()),
	)
}

func newConnRates() *rate.Limiter {
	perAddress := rate.Limit{RPS: newConnsPerSecond, Burst: newConnsBurst}
	return &rate.Limiter{
		NetworkPrefixLimits: []rate.PrefixLimit{
			{Prefix: netip.MustParsePrefix("127.0.0.0/8")}, // no limit
			{Prefix: netip.MustParsePrefix("::1/128")},
		},
		SubnetRateLimiter: rate.SubnetLimiter{
			IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: perAddress}},
			IPv6SubnetLimits: []rate.SubnetLimit{{PrefixLength: 48, Limit: perAddress}},
		},
	}
}

// ourLimits are the limits that differ from libp2p's. Memory and file descriptors in all stay
// libp2p's shares of what the machine has.
func ourLimits(connsPerPeer rcmgr.LimitVal) rcmgr.PartialLimitConfig {
	// of streams that carry relayed connections
	relayed := alike(0, systemStreams/4, 1<<30)
	relayedOfPeer := alike(0, 2*streamsPerPeer, peerMemory)
	return rcmgr.PartialLimitConfig{
		System:    alike(systemConns, systemStreams, 0),
		Transient: alike(transientConns, 4*transientConns, 0),
		PeerDefault: rcmgr.ResourceLimits{
			Conns: connsPerPeer, ConnsInbound: connsPerPeer, ConnsOutbound: connsPerPeer, FD: connsPerPeer,
			Streams: 2 * streamsPerPeer, StreamsInbound: streamsPerPeer, StreamsOutbound: streamsPerPeer,
			Memory: peerMemory,
		},
		ProtocolDefault:     alike(0, streamsPerProtocol, 0),
		ProtocolPeerDefault: alike(0, streamsPerPeer, 0),
		// libp2p's own relay limits hold 16 MiB and 64 streams of a peer: one large run.
		Service:     map[string]rcmgr.ResourceLimits{relay.ServiceName: relayed},
		ServicePeer: map[string]rcmgr.ResourceLimits{relay.ServiceName: relayedOfPeer},
		Protocol: map[protocol.ID]rcmgr.ResourceLimits{
			proto.ProtoIDv2Hop: relayed, proto.ProtoIDv2Stop: relayed,
		},
		ProtocolPeer: map[protocol.ID]rcmgr.ResourceLimits{
			proto.ProtoIDv2Hop: relayedOfPeer, proto.ProtoIDv2Stop: relayedOfPeer,
		},
	}
}

// alike are limits that are the same each way, and for both together. 0: libp2p's.
func alike(conns, streams rcmgr.LimitVal, memory rcmgr.LimitVal64) rcmgr.ResourceLimits {
	return rcmgr.ResourceLimits{
		Conns: conns, ConnsInbound: conns, ConnsOutbound: conns,
		Streams: streams, StreamsInbound: streams, StreamsOutbound: streams, Memory: memory,
	}
}
