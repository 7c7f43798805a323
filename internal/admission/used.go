package admission

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// Bounds on what is kept of tokens that were used. Each is forgotten when it has expired.
const (
	maxTokens = 1024
	maxNewest = 4096 // peers, of all tokens together
	usedRoom  = MaxAnswer - 1024
)

// tolerance is by how many seconds clocks may differ.
const tolerance = uint64(ticket.Grace / time.Second)

// Used says whom a token has admitted.
type Used struct {
	ID      [ticket.IDSize]byte
	Expires uint64 // s since 1970
	Peers   []slot.PeerID
}

// Register is which tokens were used for whom. It is no authority: peers tell each other, and for as long as that takes a token may
// admit more than it should.
type Register struct {
	tokens map[[ticket.IDSize]byte]*entry
	peers  int // of all
}

type entry struct {
	expires uint64
	peers   map[slot.PeerID]bool
}

// NewRegister is an empty one.
func NewRegister() *Register { return &Register{tokens: map[[ticket.IDSize]byte]*entry{}} }

// Why a token admits nobody. All are for who has it.
var (
	errExpired = errors.New("the ticket has expired: ask for a new one")
	errUsedUp  = errors.New("the ticket was for fewer peers than have used it: ask for a new one")
	errFull    = errors.New("too many tickets are in use: ask again when some have expired")
)

// use notes that a token of so many uses admits a peer, which it may do again and again.
func (r *Register) use(now uint64, a Ask, p slot.PeerID) error {
	if now > a.Expires && now-a.Expires > tolerance {
		return errExpired
	}
	r.forget(now)
	if e := r.tokens[a.ID]; e != nil && !e.peers[p] && len(e.peers) >= int(a.Uses) {
		return errUsedUp
	}
	if !r.note(Used{a.ID, a.Expires, []slot.PeerID{p}}) {
		return errFull
	}
	return nil
}

// Merge takes in what another peer of the run knows. It says whether there was news.
func (r *Register) Merge(now uint64, used []Used) (news bool) {
	r.forget(now)
	before := r.peers
	for _, u := range used {
		if now <= u.Expires {
			r.note(u)
		}
	}
	return r.peers != before
}

// note adds what there is room for, and says whether there was room for all.
func (r *Register) note(u Used) bool {
	e := r.tokens[u.ID]
	if e == nil {
		if len(r.tokens) >= maxTokens || len(u.Peers) == 0 {
			return false
		}
		e = &entry{expires: u.Expires, peers: map[slot.PeerID]bool{}}
		r.tokens[u.ID] = e
	}
	for _, p := range u.Peers {
		if e.peers[p] {
			continue
		}
		if r.peers >= maxNewest || len(e.peers) >= ticket.MaxUses {
			return false
		}
		e.peers[p] = true
		r.peers++
	}
	return true
}

func (r *Register) forget(now uint64) {
	for id, e := range r.tokens {
		if now > e.expires && now-e.expires > 2*tolerance {
			r.peers -= len(e.peers)
			delete(r.tokens, id)
		}
	}
}

// Used lists all, those that last longest first.
func (r *Register) Used() []Used {
	var all []Used
	for id, e := range r.tokens {
		all = append(all, Used{id, e.expires, slices.Sorted(maps.Keys(e.peers))})
	}
	slices.SortFunc(all, func(a, b Used) int { return slices.Compare(key(b), key(a)) })
	return all
}

func key(u Used) []byte { return append(wire.AppendU64(nil, u.Expires), u.ID[:]...) }

// AppendUsed appends as many as fit an answer.
func AppendUsed(b []byte, all []Used) []byte {
	var body []byte
	n := 0
	for _, u := range all {
		one := wire.AppendU64(u.ID[:], u.Expires)
		one = wire.AppendU32(one, uint32(len(u.Peers)))
		for _, p := range u.Peers {
			one = wire.AppendBytes(one, p)
		}
		if len(body)+len(one) > usedRoom {
			break
		}
		body, n = append(body, one...), n+1
	}
	return append(wire.AppendU32(b, uint32(n)), body...)
}

func readUsed(r *wire.Reader) (all []Used) {
	for n := r.Count(maxTokens, ticket.IDSize+12); n > 0 && r.Err() == nil; n-- {
		var u Used
		copy(u.ID[:], r.Take(len(u.ID)))
		u.Expires = r.U64()
		for p := r.Count(ticket.MaxUses, 4); p > 0 && r.Err() == nil; p-- {
			u.Peers = append(u.Peers, slot.PeerID(r.Bytes(slot.MaxPeerIDLen)))
		}
		all = append(all, u)
	}
	return all
}

// Append appends the register for a file, or for a peer.
func (r *Register) Append(b []byte) []byte { return AppendUsed(b, r.Used()) }

// ParseUsed reads what AppendUsed wrote.
func ParseUsed(b []byte) ([]Used, error) {
	if len(b) > MaxAnswer {
		return nil, wire.ErrTooLarge
	}
	r := wire.NewReader(b)
	all := readUsed(r)
	return all, r.Done()
}
