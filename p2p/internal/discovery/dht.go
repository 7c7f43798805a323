package discovery

import (
	"fmt"
	"time"

	"github.com/ipfs/go-cid"
	dht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p-kad-dht/records"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multihash"
)

// AnnouncementLife is how long an announcement lives in the DHT. libp2p keeps them for 48 h, which
// is right for files and wrong for peers that come and go.
const AnnouncementLife = 30 * time.Minute

// dhtPrefix keeps our DHT apart from every other one on libp2p.
const dhtPrefix protocol.ID = "/p2pdiloco"

// NewDHT starts a Kademlia node of ours. It is a server from the start (libp2p's automatic mode
// never becomes one on loopback or behind a NAT that was not probed), holds announcements only, and
// lets loopback and private addresses pass: a run on one machine, one network or the internet works
// alike.
func NewDHT(h host.Host) (*dht.IpfsDHT, error) {
	return dht.New(h,
		dht.ProtocolPrefix(dhtPrefix),
		dht.Mode(dht.ModeServer),
		dht.DisableValues(),
		dht.ProviderDatastore(newAnnouncements()),
		dht.ProviderManagerOpts(providerOptions()...),
	)
}

func providerOptions() []records.Option {
	return []records.Option{
		records.ProvideValidity(AnnouncementLife),
		records.ProviderAddrTTL(AnnouncementLife),
		records.CleanupInterval(AnnouncementLife / 2),
		records.Cache(noCache{}),
	}
}

// runKey is the DHT key under which the peers of a run announce themselves.
func runKey(run string) (cid.Cid, error) {
	h, err := multihash.Sum([]byte("p2pdiloco/run/"+run), multihash.SHA2_256, -1)
	if err != nil {
		return cid.Undef, fmt.Errorf("hashing the run's name: %w", err)
	}
	return cid.NewCidV1(cid.Raw, h), nil
}
