package p2p

import "github.com/libp2p/go-libp2p/core/protocol"

// Protocol IDs of the streams between peers.
const (
	ProtocolAdmit    = "/p2pdiloco/admit/1.0.0"    // of private runs: proofs, before anything else
	ProtocolKey      = "/p2pdiloco/key/1.0.0"      // of private runs: a member gets the secret in force, once it is admitted
	ProtocolHello    = "/p2pdiloco/hello/1.0.0"    // who are you, which run is this
	ProtocolLedger   = "/p2pdiloco/ledger/1.0.0"   // one-way ledger messages
	ProtocolExchange = "/p2pdiloco/exchange/1.0.0" // frames of the all-reduce
	ProtocolPulse    = "/p2pdiloco/pulse/1.0.0"    // a byte now and then between members: still there
	ProtocolState    = "/p2pdiloco/state/1.0.0"    // checkpoints and outcomes, fetched by root
	ProtocolMoved    = "/p2pdiloco/moved/1.0.0"    // my older connections are dead
	ProtocolProbe    = "/p2pdiloco/probe/1.0.0"    // how fast is the way to you, what time is it
)

// Version is the protocol version that hello compares. It rises when peers of different versions could not train together.
const Version = 1

// dhtPrefix keeps our DHT apart from every other one on libp2p.
const dhtPrefix protocol.ID = "/p2pdiloco"

// userAgent is what identify tells other hosts.
const userAgent = "p2pdiloco"
