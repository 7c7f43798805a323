package discovery

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/host/eventbus"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	maxRemembered = 256 // peers in the file
	maxPeerAddrs  = 16  // addresses of one of them
	maxPeersFile  = 1 << 20
	rememberEvery = 30 * time.Second
	// after news: a process that is killed a moment later must still find the others
	rememberSoon  = time.Second
	rememberPause = 3 * time.Second // between two writes, at least
	// a peer that was seen so much earlier than the one seen last is forgotten
	rememberedTerm = 30 * 24 * time.Hour
)

// remembered is one peer as it stands in the file.
type remembered struct {
	ID    peer.ID               `json:"id"`
	Addrs []multiaddr.Multiaddr `json:"addrs"`
	Seen  time.Time             `json:"seen"`
	// Member says that it is or was a member of the run, and is neither evicted nor removed.
	Member bool `json:"member,omitempty"`
	// Heard says that others have told of these addresses: no connection has shown them.
	Heard bool `json:"heard,omitempty"`
}

// addressBook keeps the addresses of the run's peers in a file, so that a peer that restarts finds
// the others though no bootstrap node lives. It is a convenience: a file that cannot be read or
// written is reported in the log and done without.
type addressBook struct {
	env   Env
	file  string       // empty: nothing is remembered
	fresh peers.Signal // somebody new was met, or has other addresses
	mu    struct {
		sync.Mutex
		peers   map[peer.ID]remembered
		members map[peer.ID]struct{} // of these, those that strangers do not push out
	}
}

func newAddressBook(env Env, file string) *addressBook {
	b := &addressBook{env: env, file: file, fresh: peers.NewSignal()}
	b.mu.peers = make(map[peer.ID]remembered)
	if file == "" {
		return b
	}
	peers, err := loadPeers(file)
	if err != nil {
		env.Log.Warn("remembered addresses cannot be used; starting without them", "file", file, "err", err)
	}
	for _, p := range fresh(peers, time.Now()) {
		if p.ID != env.Host.ID() {
			b.mu.peers[p.ID] = p
		}
	}
	return b
}

// fresh are the peers that were seen less than rememberedTerm before the one seen last. The file's
// times are of a wall clock, which jumps: they are compared with each other and not with now, and
// what lies ahead of now was not seen later than now.
func fresh(peers []remembered, now time.Time) (out []remembered) {
	var last time.Time
	for i := range peers {
		if peers[i].Seen.After(now) {
			peers[i].Seen = now
		}
		if peers[i].Seen.After(last) {
			last = peers[i].Seen
		}
	}
	for _, p := range peers {
		if last.Sub(p.Seen) < rememberedTerm {
			out = append(out, p)
		}
	}
	return out
}

// loadPeers reads a peers file; a missing one is empty.
func loadPeers(path string) ([]remembered, error) {
	data, err := disk.Read(disk.OS, path, maxPeersFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parsePeers(data)
}

func parsePeers(data []byte) ([]remembered, error) {
	var peers []remembered
	if err := json.Unmarshal(data, &peers); err != nil {
		return nil, err
	}
	if len(peers) > maxRemembered {
		return nil, fmt.Errorf("%d peers where at most %d are allowed", len(peers), maxRemembered)
	}
	for _, p := range peers {
		if err := p.ID.Validate(); err != nil {
			return nil, err
		}
		if len(p.Addrs) > maxPeerAddrs {
			return nil, fmt.Errorf("%d addresses of one peer where at most %d are allowed", len(p.Addrs), maxPeerAddrs)
		}
	}
	return peers, nil
}

// note records a peer of the run. Its addresses are taken from the peerstore when the file is
// written.
func (b *addressBook) note(id peer.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, known := b.mu.peers[id]
	p.ID, p.Seen = id, time.Now()
	b.mu.peers[id] = p
	b.evict()
	if !known {
		b.fresh.Raise()
	}
}

// setMembers notes the members of the run. Anybody may announce the run, be met and so get
// into the file; if strangers could fill it, a restart without a bootstrap node would meet nobody
// else.
func (b *addressBook) setMembers(members map[peer.ID]struct{}) {
	for id := range members {
		b.note(id)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range members {
		b.mark(id, true)
	}
	b.mu.members = members
}

// bar notes peers that may not be members any more.
func (b *addressBook) bar(ids []peer.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		b.mark(id, false)
	}
}

// mark notes of a remembered peer whether it is or was a member. b.mu is held.
func (b *addressBook) mark(id peer.ID, member bool) {
	if p, known := b.mu.peers[id]; known && p.Member != member {
		p.Member = member
		b.mu.peers[id] = p
		b.fresh.Raise()
	}
}

// evict forgets the peers longest unseen while there are too many: strangers first, then those that
// were members. b.mu is held.
func (b *addressBook) evict() {
	for len(b.mu.peers) > maxRemembered {
		all := b.sorted()
		worth := func(p remembered) int {
			switch _, member := b.mu.members[p.ID]; {
			case member:
				return 2
			case p.Member:
				return 1
			}
			return 0
		}
		least := all[len(all)-1]
		for _, p := range slices.Backward(all) {
			if worth(p) < worth(least) {
				least = p
			}
		}
		delete(b.mu.peers, least.ID)
	}
}

// sorted is everybody remembered, the ones seen last first. b.mu is held.
func (b *addressBook) sorted() []remembered {
	all := make([]remembered, 0, len(b.mu.peers))
	for _, p := range b.mu.peers {
		all = append(all, p)
	}
	slices.SortFunc(all, func(x, y remembered) int {
		return cmp.Or(y.Seen.Compare(x.Seen), cmp.Compare(x.ID, y.ID))
	})
	return all
}

// known are the remembered peers that have an address.
func (b *addressBook) known() []peer.AddrInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []peer.AddrInfo
	for _, p := range b.sorted() {
		if len(p.Addrs) > 0 {
			out = append(out, peer.AddrInfo{ID: p.ID, Addrs: p.Addrs})
		}
	}
	return out
}

// missed are the members, and then those that were members, that are not connected, of either those
// lost last first. Who is evicted or removed is not among them.
func (b *addressBook) missed() (ids []peer.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var former []peer.ID
	for _, p := range b.sorted() {
		_, member := b.mu.members[p.ID]
		switch {
		case !p.Member || b.env.Host.Network().Connectedness(p.ID) != network.NotConnected:
		case member:
			ids = append(ids, p.ID)
		default:
			former = append(former, p.ID)
		}
	}
	return append(ids, former...)
}

// addrs are the addresses that are remembered of a peer, and whether a connection has shown them.
func (b *addressBook) addrs(id peer.ID) (addrs []multiaddr.Multiaddr, shown bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.mu.peers[id]
	return p.Addrs, len(p.Addrs) > 0 && !p.Heard
}

// run writes the file soon after news, now and then, and once more at the end.
func (b *addressBook) run() {
	if b.file == "" {
		return
	}
	defer b.watch()()
	next := time.NewTimer(rememberEvery)
	defer next.Stop()
	var saved time.Time
	for soon := false; ; {
		select {
		case <-b.env.Tasks.Context().Done():
			b.save()
			return
		case <-b.fresh:
			if !soon { // more news does not put it off
				soon = true
				next.Reset(max(rememberSoon, rememberPause-time.Since(saved)))
			}
		case <-next.C:
			b.save()
			soon, saved = false, time.Now()
			next.Reset(rememberEvery)
		}
	}
}

// watch raises fresh when a peer that is remembered says that it has other addresses, until the
// function returned is called.
func (b *addressBook) watch() (stop func()) {
	sub, err := b.env.Host.EventBus().Subscribe(new(event.EvtPeerIdentificationCompleted), eventbus.BufSize(1024))
	if err != nil {
		panic(err) // it is an event
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for v := range sub.Out() {
			b.learn(v.(event.EvtPeerIdentificationCompleted).Peer)
		}
	})
	return func() {
		_ = sub.Close() // it ends the loop
		reading.Wait()
	}
}

// learn takes the addresses that a remembered peer has just told of over a connection.
func (b *addressBook) learn(id peer.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, known := b.mu.peers[id]
	addrs := b.addrsOf(id)
	if !known || len(addrs) == 0 || !p.Heard && slices.EqualFunc(p.Addrs, addrs, multiaddr.Multiaddr.Equal) {
		return
	}
	p.Addrs, p.Heard = addrs, false
	b.mu.peers[id] = p
	b.fresh.Raise()
}

// save takes the newest addresses of those connected and writes the file.
func (b *addressBook) save() {
	peers := b.refresh()
	if len(peers) == 0 {
		return
	}
	text, err := json.MarshalIndent(peers, "", "  ")
	if err == nil {
		err = disk.Replace(disk.OS, b.file, append(text, '\n'))
	}
	if err != nil {
		b.env.Log.Warn("addresses of peers could not be remembered", "file", b.file, "err", err)
	}
}

func (b *addressBook) refresh() []remembered {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, p := range b.mu.peers {
		b.mu.peers[id] = b.renewed(p)
	}
	all := b.sorted()
	return slices.DeleteFunc(all, func(p remembered) bool { return len(p.Addrs) == 0 })
}

// renewed has the addresses that the host knows of a peer now. While that is not connected anybody
// may add to them, by an answer of the DHT, as many as it likes: they do not replace what a
// connection has shown. b.mu is held.
func (b *addressBook) renewed(p remembered) remembered {
	connected := b.env.Connected(p.ID)
	if addrs := b.addrsOf(p.ID); len(addrs) > 0 && (connected || p.Heard || len(p.Addrs) == 0) {
		p.Addrs, p.Heard = addrs, !connected
		if connected {
			p.Seen = time.Now()
		}
	}
	return p
}
