package slotbench

import (
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Counts are what one slot took. Bytes are those of streams, without what TLS, TCP and QUIC add.
type Counts struct {
	CPU      float64 `json:"cpu_seconds"`    // of whole processes, their trainers included
	Exchange float64 `json:"exchange_bytes"` // sent: frames of the all-reduce
	Control  float64 `json:"control_bytes"`  // sent: hello, ledger messages, pulses
	Gossip   float64 `json:"gossip_bytes"`   // sent: gossip, DHT, libp2p's own protocols
	State    float64 `json:"state_bytes"`    // sent: checkpoints and outcomes that were fetched
	Syncs    float64 `json:"fsyncs"`         // of files and directories
	Direct   float64 `json:"direct_sends"`   // ledger messages to one peer
	Gossiped float64 `json:"gossip_sends"`   // ledger messages to all
	Signed   float64 `json:"signatures_made"`
	Checked  float64 `json:"signatures_checked"` // by the ledger: gossip checks its own, too
}

// fields are all counts of c, in the order of the type.
func (c *Counts) fields() []*float64 {
	return []*float64{
		&c.CPU, &c.Exchange, &c.Control, &c.Gossip, &c.State, &c.Syncs, &c.Direct, &c.Gossiped, &c.Signed,
		&c.Checked,
	}
}

// minus is c without what was counted before.
func (c Counts) minus(before Counts) Counts {
	for i, v := range c.fields() {
		*v -= *before.fields()[i]
	}
	return c
}

// meter counts what one node does.
type meter struct {
	syncs, direct, gossiped, signed, checked atomic.Uint64
}

// read returns the counts since the process began, of which the network knows the traffic.
func (m *meter) read(t p2p.Traffic) Counts {
	of := func(n *atomic.Uint64) float64 { return float64(n.Load()) }
	return Counts{
		CPU: bench.CPUSeconds(), Exchange: float64(t.Exchange.Sent), Control: float64(t.Control.Sent),
		Gossip: float64(t.Gossip.Sent), State: float64(t.State.Sent), Syncs: of(&m.syncs),
		Direct: of(&m.direct), Gossiped: of(&m.gossiped), Signed: of(&m.signed), Checked: of(&m.checked),
	}
}

// wrap counts what a ledger signs, checks and sends.
func (m *meter) wrap(cfg *membership.DriverConfig) {
	cfg.Signer, cfg.Transport = countedSigner{cfg.Signer, m}, countedTransport{cfg.Transport, m}
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

type countedTransport struct {
	membership.Transport
	*meter
}

func (t countedTransport) Send(to slot.PeerID, message []byte) {
	t.direct.Add(1)
	t.Transport.Send(to, message)
}

func (t countedTransport) Publish(message []byte) {
	t.gossiped.Add(1)
	t.Transport.Publish(message)
}

// countedDisk is the operating system's file system, whose syncs are counted.
type countedDisk struct {
	disk.FS
	*meter
}

func (d countedDisk) SyncDir(dir string) error {
	d.syncs.Add(1)
	return d.FS.SyncDir(dir)
}

func (d countedDisk) OpenFile(name string, flag int) (disk.File, error) {
	return d.counted(d.FS.OpenFile(name, flag))
}

func (d countedDisk) CreateTemp(dir, pattern string) (disk.File, error) {
	return d.counted(d.FS.CreateTemp(dir, pattern))
}

func (d countedDisk) counted(f disk.File, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	return countedFile{f, d.meter}, nil
}

type countedFile struct {
	disk.File
	*meter
}

func (f countedFile) Sync() error {
	f.syncs.Add(1)
	return f.File.Sync()
}
