package p2p

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
)

const (
	maxRemembered  = 256 // peers in the file
	maxPeerAddrs   = 16  // addresses of one of them
	maxPeersFile   = 1 << 20
	rememberEvery  = 30 * time.Second
	rememberSoon   = time.Second         // after a newcomer: whoever is killed a moment later must still find the others
	rememberedTerm = 30 * 24 * time.Hour // who was not seen for so long before somebody else was is forgotten
)

// remembered is one peer as it stands in the file.
type remembered struct {
	ID    peer.ID   `json:"id"`
	Addrs []string  `json:"addrs"`
	Seen  time.Time `json:"seen"`
}

// memory keeps the addresses of the run's peers in a file, so that a peer that restarts finds the others though no bootstrap
// node lives. It is a convenience: a file that cannot be read or written is reported in the log and done without.
type memory struct {
	n     *Network
	fresh chan struct{} // somebody new was met
	mu    struct {
		sync.Mutex
		peers   map[peer.ID]remembered
		members map[peer.ID]struct{} // of these, those that strangers do not push out
	}
}

func newMemory(n *Network) *memory {
	m := &memory{n: n, fresh: make(chan struct{}, 1)}
	m.mu.peers = make(map[peer.ID]remembered)
	if n.cfg.PeersFile == "" {
		return m
	}
	peers, err := loadPeers(n.cfg.PeersFile)
	if err != nil {
		n.log.Warn("remembered addresses cannot be used; starting without them", "file", n.cfg.PeersFile, "err", err)
	}
	for _, p := range fresh(peers, time.Now()) {
		if p.ID != n.host.ID() {
			m.mu.peers[p.ID] = p
		}
	}
	return m
}

// fresh are the peers that were seen less than rememberedTerm before the one seen last. The file's times are of a wall clock, which
// jumps: they are compared with each other and not with now, and what lies ahead of now was not seen later than now.
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
	b, err := disk.Read(disk.OS, path, maxPeersFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parsePeers(b)
}

func parsePeers(b []byte) ([]remembered, error) {
	var peers []remembered
	if err := json.Unmarshal(b, &peers); err != nil {
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
		for _, a := range p.Addrs {
			if _, err := multiaddr.NewMultiaddr(a); err != nil {
				return nil, err
			}
		}
	}
	return peers, nil
}

// met notes a peer of the run. Its addresses are taken from the peerstore when the file is written.
func (m *memory) met(id peer.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, known := m.mu.peers[id]
	p.ID, p.Seen = id, time.Now()
	m.mu.peers[id] = p
	m.evict()
	if !known {
		select {
		case m.fresh <- struct{}{}:
		default:
		}
	}
}

// setMembers notes who the members of the run are. Anybody may announce the run, be met and so get into the file; if strangers
// could fill it, a restart without a bootstrap node would meet nobody else.
func (m *memory) setMembers(members map[peer.ID]struct{}) {
	for id := range members {
		m.met(id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.members = members
}

// evict forgets the peers longest unseen while there are too many, strangers first. m.mu is held.
func (m *memory) evict() {
	for len(m.mu.peers) > maxRemembered {
		all := m.sorted()
		oldest := all[len(all)-1]
		for _, p := range slices.Backward(all) {
			if _, member := m.mu.members[p.ID]; !member {
				oldest = p
				break
			}
		}
		delete(m.mu.peers, oldest.ID)
	}
}

// sorted is everybody remembered, the ones seen last first. m.mu is held.
func (m *memory) sorted() []remembered {
	all := make([]remembered, 0, len(m.mu.peers))
	for _, p := range m.mu.peers {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b remembered) int {
		return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// known are the remembered peers that have an address.
func (m *memory) known() []peer.AddrInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []peer.AddrInfo
	for _, p := range m.sorted() {
		info := peer.AddrInfo{ID: p.ID}
		for _, s := range p.Addrs {
			if a, err := multiaddr.NewMultiaddr(s); err == nil {
				info.Addrs = append(info.Addrs, a)
			}
		}
		if len(info.Addrs) > 0 {
			out = append(out, info)
		}
	}
	return out
}

// run writes the file soon after somebody new was met, now and then, and once more at the end.
func (m *memory) run() {
	if m.n.cfg.PeersFile == "" {
		return
	}
	next := time.NewTimer(rememberEvery)
	defer next.Stop()
	for {
		select {
		case <-m.n.ctx.Done():
			m.save()
			return
		case <-m.fresh:
			next.Reset(rememberSoon)
		case <-next.C:
			m.save()
			next.Reset(rememberEvery)
		}
	}
}

// save takes the newest addresses of those connected and writes the file.
func (m *memory) save() {
	peers := m.refresh()
	if len(peers) == 0 {
		return
	}
	b, err := json.MarshalIndent(peers, "", "  ")
	if err == nil {
		err = disk.Replace(disk.OS, m.n.cfg.PeersFile, append(b, '\n'))
	}
	if err != nil {
		m.n.log.Warn("addresses of peers could not be remembered", "file", m.n.cfg.PeersFile, "err", err)
	}
}

func (m *memory) refresh() []remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, p := range m.mu.peers {
		addrs := m.n.host.Peerstore().Addrs(id)
		if len(addrs) == 0 {
			continue
		}
		if m.n.host.Network().Connectedness(id) == network.Connected {
			p.Seen = time.Now()
		}
		p.Addrs = nil
		for _, a := range addrs[:min(len(addrs), maxPeerAddrs)] {
			p.Addrs = append(p.Addrs, a.String())
		}
		slices.Sort(p.Addrs)
		m.mu.peers[id] = p
	}
	all := m.sorted()
	return slices.DeleteFunc(all, func(p remembered) bool { return len(p.Addrs) == 0 })
}
