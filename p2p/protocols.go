package p2p

import (
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/gate"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/liveness"
)

// Protocol IDs of the streams between peers.
const (
	ProtocolAdmit = gate.Protocol // of private runs: proofs, before anything else
	// of private runs: a member gets the secret in force, once it is admitted
	ProtocolKey      = "/p2pdiloco/key/1.0.0"
	ProtocolHello    = "/p2pdiloco/hello/1.0.0"    // who are you, which run is this
	ProtocolLedger   = "/p2pdiloco/ledger/2.0.0"   // one-way ledger messages
	ProtocolExchange = "/p2pdiloco/exchange/1.0.0" // frames of the all-reduce
	// a byte now and then between members: still there
	ProtocolPulse = liveness.ProtocolPulse
	ProtocolState = "/p2pdiloco/state/1.0.0" // checkpoints and outcomes, fetched by root
	ProtocolMoved = liveness.ProtocolMoved   // my older connections are dead
	ProtocolProbe = "/p2pdiloco/probe/1.0.0" // how fast is the way to you, what time is it
)

// Version is the protocol version that hello compares. It rises when peers of different versions
// could not train together.
const Version = 2

// userAgent is what identify reports to other hosts.
const userAgent = "p2pdiloco"
