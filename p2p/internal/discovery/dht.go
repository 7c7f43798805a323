package discovery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/simplelru"
	"github.com/ipfs/go-cid"
	"github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
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

const (
	maxAnnouncements     = 16384 // held for the DHT; some 300 bytes each
	maxAnnouncementsPeer = 16    // of one peer: it takes part in few runs
)

// announcements is where the DHT keeps which peers take part in which run. Any peer that connects
// may put records under keys that it made up, as many as it likes, and the DHT's own store has no
// end. Here a peer's record beyond maxAnnouncementsPeer replaces one of its own, and one beyond
// maxAnnouncements any other: peers that are still there announce themselves again. kad-dht calls
// these three methods.
type announcements struct {
	datastore.Batching
	mu struct {
		sync.Mutex
		// records by their key, /providers/RUN/PEER, under its parent
		byRun  map[datastore.Key]map[datastore.Key][]byte
		byPeer map[string]map[datastore.Key]struct{} // a flood must not search all runs each time
		count  int
	}
}

func newAnnouncements() *announcements {
	a := &announcements{}
	a.mu.byRun = make(map[datastore.Key]map[datastore.Key][]byte)
	a.mu.byPeer = make(map[string]map[datastore.Key]struct{})
	return a
}

// Put implements datastore.Write.
func (a *announcements) Put(_ context.Context, key datastore.Key, value []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	run, peer := key.Parent(), key.Name()
	if _, held := a.mu.byRun[run][key]; !held {
		a.makeRoom(peer)
		if a.mu.byRun[run] == nil {
			a.mu.byRun[run] = make(map[datastore.Key][]byte)
		}
		if a.mu.byPeer[peer] == nil {
			a.mu.byPeer[peer] = make(map[datastore.Key]struct{})
		}
		a.mu.byPeer[peer][key] = struct{}{}
		a.mu.count++
	}
	a.mu.byRun[run][key] = value
	return nil
}

// makeRoom drops a record if the peer, or all together, have as many as they may. Which one is up
// to the map. a.mu is held.
func (a *announcements) makeRoom(peer string) {
	if len(a.mu.byPeer[peer]) >= maxAnnouncementsPeer {
		for key := range a.mu.byPeer[peer] {
			a.drop(key)
			return
		}
	}
	if a.mu.count < maxAnnouncements {
		return
	}
	for _, keys := range a.mu.byPeer {
		for key := range keys {
			a.drop(key)
			return
		}
	}
}

func (a *announcements) drop(key datastore.Key) {
	run, peer := key.Parent(), key.Name()
	if _, held := a.mu.byRun[run][key]; !held {
		return
	}
	delete(a.mu.byRun[run], key)
	if len(a.mu.byRun[run]) == 0 {
		delete(a.mu.byRun, run)
	}
	delete(a.mu.byPeer[peer], key)
	if len(a.mu.byPeer[peer]) == 0 {
		delete(a.mu.byPeer, peer)
	}
	a.mu.count--
}

// Delete implements datastore.Write.
func (a *announcements) Delete(_ context.Context, key datastore.Key) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(key)
	return nil
}

// Query implements datastore.Read. The DHT asks for one run, which does not look at the others', or
// for everything.
func (a *announcements) Query(_ context.Context, q query.Query) (query.Results, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var entries []query.Entry
	add := func(records map[datastore.Key][]byte) {
		for key, v := range records {
			entries = append(entries, query.Entry{Key: key.String(), Value: v, Size: len(v)})
		}
	}
	if one := datastore.NewKey(q.Prefix); len(one.List()) == 2 {
		add(a.mu.byRun[one])
	} else {
		for _, records := range a.mu.byRun {
			add(records)
		}
	}
	return query.NaiveQueryApply(q, query.ResultsWithEntries(q, entries)), nil
}

// noCache is a cache of providers that holds nothing. kad-dht's own has no bound on the providers
// of one key: a flood under a run's name would grow it for as long as an announcement lives, while
// the store behind it (announcements) has its bound and is in memory anyway. kad-dht calls these
// two.
type noCache struct{ simplelru.LRUCache }

func (noCache) Add(_, _ any) bool            { return false }
func (noCache) Get(any) (value any, ok bool) { return nil, false }
