package bench

import (
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
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
	f, err := d.FS.OpenFile(name, flag)
	return countedFile{f, d.meter}, err
}

func (d countedDisk) CreateTemp(dir, pattern string) (disk.File, error) {
	f, err := d.FS.CreateTemp(dir, pattern)
	return countedFile{f, d.meter}, err
}

type countedFile struct {
	disk.File
	*meter
}

func (f countedFile) Sync() error {
	f.syncs.Add(1)
	return f.File.Sync()
}
