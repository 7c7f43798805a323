package p2p

import (
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// Protocol IDs of the streams between peers.
const (
	ProtocolAdmit = peers.ProtocolAdmit // of private runs: proofs, before anything else
	// of private runs: a member gets the secret in force, once it is admitted
	ProtocolKey      = "/p2pdiloco/key/1.0.0"
	ProtocolHello    = "/p2pdiloco/hello/1.0.0"      // who are you, which run is this
	ProtocolLedger   = "/p2pdiloco/ledger/3.0.0-dev" // one-way ledger messages
	ProtocolExchange = "/p2pdiloco/exchange/1.0.0"   // frames of the all-reduce
	// a byte now and then between members: still there
	ProtocolPulse = peers.ProtocolPulse
	ProtocolState = "/p2pdiloco/state/1.0.0" // checkpoints and outcomes, fetched by root
	ProtocolAudit = "/p2pdiloco/audit/1.0.0" // samples of contributions, for auditors
	ProtocolProbe = "/p2pdiloco/probe/1.0.0" // how fast is the way to you, what time is it
)

// userAgent is what identify reports to other hosts.
const userAgent = "p2pdiloco"

// traits are how the streams of a protocol are treated.
type traits struct {
	purpose purpose
	// bulky streams carry much data: they have bulk connections, and wait for the turns of the
	// rates
	bulky bool
	// how many of one peer are handled at once: an honest peer has one, or for a moment two; 0:
	// streamsAtOnce
	atOnce int
	// mustEnd streams cannot be opened again in the middle. Others stay open for as long as a
	// connection lasts.
	mustEnd bool
}

const streamsAtOnce = 64

// protocols are those whose streams are not treated as gossip.
var protocols = map[protocol.ID]traits{
	ProtocolAdmit:      {purpose: control, atOnce: 4},
	ProtocolKey:        {purpose: control, atOnce: 4},
	ProtocolHello:      {purpose: control, atOnce: 4, mustEnd: true},
	ProtocolLedger:     {purpose: control, atOnce: 4},
	ProtocolPulse:      {purpose: control, atOnce: 4},
	ProtocolExchange:   {purpose: exchange, bulky: true, mustEnd: true},
	ProtocolState:      {purpose: state, bulky: true, mustEnd: true},
	ProtocolAudit:      {purpose: exchange, bulky: true, mustEnd: true, atOnce: 4},
	ProtocolProbe:      {bulky: true, atOnce: 2},
	proto.ProtoIDv2Hop: {purpose: circuit}, proto.ProtoIDv2Stop: {purpose: circuit},
}
