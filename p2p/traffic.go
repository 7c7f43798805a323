package p2p

import (
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/metrics"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/limits"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/nat"
)

// Bytes are numbers of bytes, each way.
type Bytes = nat.Bytes

// Traffic is the bytes of streams by what they are for, without what TLS, yamux and IP add.
type Traffic struct {
	Control  Bytes `json:"control"`  // hello, ledger messages, pulses
	Gossip   Bytes `json:"gossip"`   // gossip, the DHT, and libp2p's own protocols
	Exchange Bytes `json:"exchange"` // frames of the all-reduce
	State    Bytes `json:"state"`    // checkpoints and outcomes
	// of all these, with what TLS and yamux add: what went through relays
	Relayed Bytes `json:"relayed"`
}

// Total is all of them together.
func (t Traffic) Total() (sent, received uint64) {
	for _, b := range []Bytes{t.Control, t.Gossip, t.Exchange, t.State} {
		sent, received = sent+b.Sent, received+b.Received
	}
	return sent, received
}

// purpose is a field of Traffic.
type purpose int

const (
	gossipAndDHT purpose = iota
	control
	exchange
	state
	circuit // connections through relays, whose streams are counted by themselves
	purposes
)

// traffic counts bytes of streams. It is libp2p's bandwidth reporter cut down to what libp2p calls
// and to totals: no goroutine, no table of peers that grows.
type traffic struct {
	metrics.Reporter // nil: nobody asks it for anything
	sent, received   [purposes]atomic.Uint64
	upload           *limits.Bucket      // that what does not wait for its turn is counted against
	download         *limits.Bucket      // the same
	carried          nat.Carried         // of the circuits, what is others'
	relays           func(relay peer.ID) // hears that something came through a relay
}

func (t *traffic) snapshot() Traffic {
	at := func(p purpose) Bytes { return Bytes{Sent: t.sent[p].Load(), Received: t.received[p].Load()} }
	relayed := at(circuit)
	// counted a moment later than the streams
	relayed.Sent -= min(relayed.Sent, t.carried.Sent.Load())
	relayed.Received -= min(relayed.Received, t.carried.Received.Load())
	return Traffic{
		Control: at(control), Gossip: at(gossipAndDHT), Exchange: at(exchange), State: at(state),
		Relayed: relayed,
	}
}

// LogSentMessageStream counts what was written on a stream.
func (t *traffic) LogSentMessageStream(n int64, proto protocol.ID, _ peer.ID) {
	p := protocols[proto]
	t.sent[p.purpose].Add(uint64(n))
	if !p.bulky && p.purpose != circuit {
		t.upload.Passed(int(n))
	}
}

// LogRecvMessageStream counts what was read from a stream.
func (t *traffic) LogRecvMessageStream(n int64, proto protocol.ID, from peer.ID) {
	p := protocols[proto]
	t.received[p.purpose].Add(uint64(n))
	if !p.bulky && p.purpose != circuit {
		t.download.Passed(int(n))
	}
	if n > 0 && p.purpose == circuit {
		t.relays(from)
	}
}

// A message is counted with its stream.
func (t *traffic) LogSentMessage(int64) {}
func (t *traffic) LogRecvMessage(int64) {}
