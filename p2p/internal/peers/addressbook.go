package peers

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const (
	maxRemembered = 256 // peers in the file
	maxPeerAddrs  = 16  // addresses of one of them
	maxPeersFile  = 1 << 20
	rememberEvery = 30 * time.Second
	// after news: a process that is killed a moment later must still find the others
	rememberSoon  = time.Second
	rememberPause = 3 * time.Second // between two writes, at least
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

// Book keeps the addresses of the run's peers in a file, so that a peer that restarts finds the
// others though no bootstrap node lives. It is a convenience: a file that cannot be read or written
// is reported in the log and done without.
type Book struct {
	env   Env
	file  string // empty: nothing is remembered
	fresh Signal // somebody new was met, or has other addresses
	mu    struct {
		sync.Mutex
		peers map[peer.ID]remembered
	}
}

func newBook(env Env, file string) *Book {
	b := &Book{env: env, file: file, fresh: NewSignal()}
	b.mu.peers = make(map[peer.ID]remembered)
	if file == "" {
		return b
	}
	peers, err := loadPeers(file)
	if err != nil {
		env.Log.Warn("remembered addresses cannot be used; starting without them", "file", file, "err", err)
	}
	for _, p := range peers {
		if p.ID != env.Host.ID() {
			b.mu.peers[p.ID] = p
		}
	}
	return b
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

// Note records a peer of the run. Its addresses are taken from the peerstore when the file is
// written.
func (b *Book) Note(id peer.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.note(id)
}

// note is Note; mu is held. While there are too many, those worth least are forgotten.
func (b *Book) note(id peer.ID) {
	p, known := b.mu.peers[id]
	p.ID, p.Seen = id, time.Now()
	if b.mu.peers[id] = p; !known {
		b.fresh.Raise()
	}
	for len(b.mu.peers) > maxRemembered {
		all := b.sorted()
		delete(b.mu.peers, all[len(all)-1].ID)
	}
}

// noteMembers notes the members of the run. Anybody may announce the run, be met and so get into
// the file; if strangers could fill it, a restart without a bootstrap node would meet nobody else.
func (b *Book) noteMembers(members map[peer.ID]struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range members {
		b.note(id)
		b.mark(id, true)
	}
}

// Bar notes peers that may not be members any more: they are not dialled.
func (b *Book) Bar(ids []slot.PeerID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		b.mark(peer.ID(id), false)
	}
}

// mark notes of a remembered peer whether it is or was a member. b.mu is held.
func (b *Book) mark(id peer.ID, member bool) {
	if p, known := b.mu.peers[id]; known && p.Member != member {
		p.Member = member
		b.mu.peers[id] = p
		b.fresh.Raise()
	}
}

// sorted is everybody remembered: members, then those that were members, then strangers, of each
// those seen last first. b.mu is held.
func (b *Book) sorted() []remembered {
	worth := func(p remembered) int {
		switch {
		case b.env.Members.Has(p.ID):
			return 2
		case p.Member:
			return 1
		}
		return 0
	}
	return slices.SortedFunc(maps.Values(b.mu.peers), func(x, y remembered) int {
		return cmp.Or(worth(y)-worth(x), y.Seen.Compare(x.Seen), cmp.Compare(x.ID, y.ID))
	})
}

// Known are the remembered peers that have an address.
func (b *Book) Known() (known []peer.AddrInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.sorted() {
		if len(p.Addrs) > 0 {
			known = append(known, peer.AddrInfo{ID: p.ID, Addrs: p.Addrs})
		}
	}
	return known
}

// missed are the members, and then those that were members, that are not connected, of either those
// lost last first. Who is evicted or removed is only among them where strangers are asked for, too.
func (b *Book) missed(strangers bool) (ids []peer.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.sorted() {
		if (p.Member || strangers) && !b.env.reached(p.ID) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// isMember says whether a peer is or was a member.
func (b *Book) isMember(id peer.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.peers[id].Member
}

// Addrs are the addresses that are remembered of a peer, and whether a connection has shown them.
func (b *Book) Addrs(id peer.ID) (addrs []multiaddr.Multiaddr, shown bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.mu.peers[id]
	return p.Addrs, len(p.Addrs) > 0 && !p.Heard
}

// run writes the file soon after news, now and then, and once more at the end.
func (b *Book) run() {
	if b.file == "" {
		return
	}
	// a peer that is remembered may say that it has other addresses
	defer onEvent(b.env, func(ev event.EvtPeerIdentificationCompleted) { b.learn(ev.Peer) })()
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

func (b *Book) learn(id peer.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p, known := b.mu.peers[id]; known && b.renew(&p) {
		b.mu.peers[id] = p
		b.fresh.Raise()
	}
}

// save takes the newest addresses of those connected and writes the file.
func (b *Book) save() {
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

func (b *Book) refresh() []remembered {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, p := range b.mu.peers {
		b.renew(&p)
		b.mu.peers[id] = p
	}
	return slices.DeleteFunc(b.sorted(), func(p remembered) bool { return len(p.Addrs) == 0 })
}

// renew takes the addresses that the host knows of a peer now, and says whether they are others.
// While that is not connected anybody may add to them, by an answer of the DHT, as many as it
// likes: they do not replace what a connection has shown.
func (b *Book) renew(p *remembered) (changed bool) {
	connected := b.env.Connected(p.ID)
	addrs := b.Best(p.ID)
	if len(addrs) == 0 || !connected && !p.Heard && len(p.Addrs) > 0 {
		return false
	}
	changed = p.Heard == connected || !slices.EqualFunc(p.Addrs, addrs, multiaddr.Multiaddr.Equal)
	if p.Addrs, p.Heard = addrs, !connected; connected {
		p.Seen = time.Now()
	}
	return changed
}

// Best are a peer's addresses as the host knows them, as many as the file has of one. A machine may
// have dozens, most of them of no use elsewhere: those of its containers, say. First are those that
// this peer has dialled and is connected to, then those with the IP address of a connection that
// there is, then public ones, names, ways through relays, those of local networks, and loopback.
func (b *Book) Best(id peer.ID) []multiaddr.Multiaddr {
	var dialled []multiaddr.Multiaddr
	inUse := make(map[netip.Addr]bool)
	for _, c := range b.env.Host.Network().ConnsToPeer(id) {
		a := c.RemoteMultiaddr()
		if ip := IP(a); ip.IsValid() && !IsRelayed(a) {
			inUse[ip] = true
			if c.Stat().Direction == network.DirOutbound {
				dialled = append(dialled, a)
			}
		}
	}
	return first(maxPeerAddrs, dialled, bestAddrs(b.env.Host.Peerstore().Addrs(id), inUse))
}

// bestAddrs are the maxPeerAddrs addresses by which a peer is most likely to be found again.
func bestAddrs(addrs []multiaddr.Multiaddr, inUse map[netip.Addr]bool) []multiaddr.Multiaddr {
	worth := func(a multiaddr.Multiaddr) int {
		switch rank, ip := addrRank(a), IP(a); {
		case inUse[ip] && !IsRelayed(a):
			return -2
		case rank == rankPublic && ip.IsValid(): // before names
			return -1
		default:
			return rank
		}
	}
	sorted := slices.SortedFunc(slices.Values(addrs), func(x, y multiaddr.Multiaddr) int {
		return cmp.Or(worth(x)-worth(y), x.Compare(y))
	})
	return sorted[:min(len(sorted), maxPeerAddrs)]
}
