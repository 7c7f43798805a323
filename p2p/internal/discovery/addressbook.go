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

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/tasks"
)

const (
	maxRemembered = 256 // peers in the file
	maxPeerAddrs  = 16  // addresses of one of them
	maxPeersFile  = 1 << 20
	rememberEvery = 30 * time.Second
	// after a newcomer: a process that is killed a moment later must still find the others
	rememberSoon = time.Second
	// a peer that was seen so much earlier than the one seen last is forgotten
	rememberedTerm = 30 * 24 * time.Hour
)

// remembered is one peer as it stands in the file.
type remembered struct {
	ID    peer.ID               `json:"id"`
	Addrs []multiaddr.Multiaddr `json:"addrs"`
	Seen  time.Time             `json:"seen"`
}

// addressBook keeps the addresses of the run's peers in a file, so that a peer that restarts finds
// the others though no bootstrap node lives. It is a convenience: a file that cannot be read or
// written is reported in the log and done without.
type addressBook struct {
	env   Env
	file  string       // empty: nothing is remembered
	fresh tasks.Signal // somebody new was met
	mu    struct {
		sync.Mutex
		peers   map[peer.ID]remembered
		members map[peer.ID]struct{} // of these, those that strangers do not push out
	}
}

func newAddressBook(env Env, file string) *addressBook {
	b := &addressBook{env: env, file: file, fresh: tasks.NewSignal()}
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
	b.mu.members = members
}

// evict forgets the peers longest unseen while there are too many, strangers first. b.mu is held.
func (b *addressBook) evict() {
	for len(b.mu.peers) > maxRemembered {
		all := b.sorted()
		oldest := all[len(all)-1]
		for _, p := range slices.Backward(all) {
			if _, member := b.mu.members[p.ID]; !member {
				oldest = p
				break
			}
		}
		delete(b.mu.peers, oldest.ID)
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

// run writes the file soon after somebody new was met, now and then, and once more at the end.
func (b *addressBook) run() {
	if b.file == "" {
		return
	}
	next := time.NewTimer(rememberEvery)
	defer next.Stop()
	for {
		select {
		case <-b.env.Tasks.Context().Done():
			b.save()
			return
		case <-b.fresh:
			next.Reset(rememberSoon)
		case <-next.C:
			b.save()
			next.Reset(rememberEvery)
		}
	}
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
		addrs := b.env.Host.Peerstore().Addrs(id)
		if len(addrs) == 0 {
			continue
		}
		if b.env.Connected(id) {
			p.Seen = time.Now()
		}
		p.Addrs = slices.SortedFunc(slices.Values(addrs[:min(len(addrs), maxPeerAddrs)]), multiaddr.Multiaddr.Compare)
		b.mu.peers[id] = p
	}
	all := b.sorted()
	return slices.DeleteFunc(all, func(p remembered) bool { return len(p.Addrs) == 0 })
}
