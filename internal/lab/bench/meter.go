package bench

import (
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Counts are what was used up to a moment, in the order of units. Bytes are those of streams that
// were sent, without what TLS, TCP and QUIC add.
type Counts [len(countUnits)]float64

var countUnits = [...]string{
	"cpu-sec",          // of whole processes, their trainers included
	"exchange-B",       // frames of the all-reduce
	"control-B",        // hello, ledger messages, pulses
	"gossip-B",         // gossip, DHT, libp2p's own protocols
	"fsyncs",           // of files and directories
	"signatures",       // that the ledger made
	"signature-checks", // by the ledger: gossip checks its own, too
}

// meter counts what one node does.
type meter struct {
	syncs, signed, checked atomic.Uint64
}

// read returns the counts since the process began, of which the network knows the traffic.
func (m *meter) read(t p2p.Traffic) Counts {
	of := func(n *atomic.Uint64) float64 { return float64(n.Load()) }
	return Counts{
		CPUSeconds(), float64(t.Exchange.Sent), float64(t.Control.Sent), float64(t.Gossip.Sent),
		of(&m.syncs), of(&m.signed), of(&m.checked),
	}
}

// wrap counts what a ledger signs and checks.
func (m *meter) wrap(cfg *membership.DriverConfig) {
	cfg.Signer = countedSigner{cfg.Signer, m}
	verify := cfg.Verify
	cfg.Verify = func(p slot.PeerID, data, sig []byte) bool {
		m.checked.Add(1)
		return verify(p, data, sig)
	}
}

type countedSigner struct {
	wire.Signer
	*meter
}

func (s countedSigner) Sign(data []byte) ([]byte, error) {
	s.signed.Add(1)
	return s.Signer.Sign(data)
}

// sync counts a sync.
func (m *meter) sync(really func() error) error {
	m.syncs.Add(1)
	return really()
}
