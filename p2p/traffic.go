package p2p

import (
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/metrics"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// traffic counts bytes of streams, all protocols together, DHT and gossip included, without what TLS, yamux and IP add. It
// is libp2p's bandwidth reporter cut down to totals: no goroutine, no table of peers that grows.
type traffic struct{ sent, received atomic.Int64 }

var _ metrics.Reporter = (*traffic)(nil)

func (t *traffic) LogSentMessage(n int64)                                { t.sent.Add(n) }
func (t *traffic) LogRecvMessage(n int64)                                { t.received.Add(n) }
func (t *traffic) LogSentMessageStream(int64, protocol.ID, peer.ID)      {}
func (t *traffic) LogRecvMessageStream(int64, protocol.ID, peer.ID)      {}
func (t *traffic) GetBandwidthForPeer(peer.ID) (s metrics.Stats)         { return s }
func (t *traffic) GetBandwidthForProtocol(protocol.ID) (s metrics.Stats) { return s }
func (t *traffic) GetBandwidthByPeer() map[peer.ID]metrics.Stats         { return nil }
func (t *traffic) GetBandwidthByProtocol() map[protocol.ID]metrics.Stats { return nil }
func (t *traffic) Reset()                                                {}
func (t *traffic) TrimIdle(time.Time)                                    {}

func (t *traffic) GetBandwidthTotals() metrics.Stats {
	return metrics.Stats{TotalIn: t.received.Load(), TotalOut: t.sent.Load()}
}
