package proof

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// usedRoom bounds what is kept of tokens that were used, in bytes as it is announced: all of it
// fits an answer, an announcement and the file. It is room for 900 peers with a token each, or 1500
// with the same. A use is forgotten when its token has expired.
const usedRoom = MaxAnswer - 1024

// maxLife bounds how long a token can be valid, in s. Otherwise a peer with the secret could make
// one that takes its place for ever.
const maxLife = uint64(ticket.MaxTTL/time.Second) + 2*tolerance

// tolerance is the number of seconds by which clocks may differ.
const tolerance = uint64(ticket.Grace / time.Second)

// Used lists the peers that a token has admitted.
type Used struct {
	ID      [ticket.IDSize]byte
	Expires uint64 // s since 1970
	Peers   []slot.PeerID
}

func (u Used) size() int {
	n := ticket.IDSize + 8 + 4
	for _, p := range u.Peers {
		n += peerSize(p)
	}
	return n
}

func peerSize(p slot.PeerID) int { return 4 + len(p) }

// Told is what peers announce to each other of tokens that were used.
type Told struct {
	// tokens that expire until then may have been used though they are not listed; 0: all that is
	// known is listed
	Lost uint64
	Used []Used
}

// Register keeps which tokens were used by which peers. It is no authority: peers announce uses to
// each other, and until an announcement arrives a token may admit more peers than it should. But
// the register forgets no use while the token is valid: if there is no room, it admits nobody.
type Register struct {
	tokens map[[ticket.IDSize]byte]*entry
	size   int    // of all, in bytes as it is told
	lost   uint64 // see Told
}

type entry struct {
	expires uint64
	peers   map[slot.PeerID]bool
}

// NewRegister makes an empty register.
func NewRegister() *Register { return &Register{tokens: map[[ticket.IDSize]byte]*entry{}} }

// These are the reasons why a token admits nobody. They are meant for the peer that has it.
var (
	errExpired = errors.New("the ticket has expired: ask for a new one")
	errUsedUp  = errors.New("the ticket was for fewer peers than have used it: ask for a new one")
	errEndless = errors.New("the ticket lasts longer than any that a member makes: ask for a new one")
	errFull    = errors.New("too many tickets are in use: ask again when some have expired")
)

// isExpired says that a time is past, by all clocks that are about right.
func isExpired(now, expires uint64) bool { return now > expires && now-expires > tolerance }

// use notes that a token with a number of uses admits a peer. It may admit the same peer
// repeatedly.
func (r *Register) use(now uint64, a Ask, p slot.PeerID) error {
	r.forget(now)
	switch {
	case isExpired(now, a.Expires):
		return errExpired
	case a.Expires > now+maxLife:
		return errEndless
	}
	e := r.tokens[a.ID]
	switch {
	case e != nil && !e.peers[p] && len(e.peers) >= int(min(a.Uses, ticket.MaxUses)):
		return errUsedUp
	case (e == nil || !e.peers[p]) && a.Expires <= r.lost:
		return errFull
	case !r.note(Used{a.ID, a.Expires, []slot.PeerID{p}}):
		return errFull
	}
	return nil
}

// Merge takes in what another peer of the run knows. It returns whether any of it was news.
func (r *Register) Merge(now uint64, told Told) (news bool) {
	r.forget(now)
	size, lost := r.size, r.lost
	if len(r.tokens) == 0 { // a peer that starts knows no more than others announce
		r.lost = max(r.lost, min(told.Lost, now+maxLife))
	}
	for _, u := range told.Used {
		if u.Expires > now+maxLife || r.expired(now, u.Expires) {
			continue // use refuses it
		}
		if !r.note(u) {
			r.lost = max(r.lost, u.Expires)
		}
	}
	return r.size != size || r.lost != lost
}

// note adds as much as there is room for. It returns whether there was room for all.
func (r *Register) note(u Used) bool {
	e := r.tokens[u.ID]
	if e == nil {
		if len(u.Peers) == 0 {
			return true
		}
		first := Used{Peers: u.Peers[:1]}
		if r.size+first.size() > usedRoom {
			return false
		}
		e = &entry{peers: map[slot.PeerID]bool{}}
		r.tokens[u.ID] = e
		r.size += Used{}.size()
	}
	e.expires = max(e.expires, u.Expires) // else a false one could have it forgotten
	for _, p := range u.Peers {
		switch {
		case e.peers[p] || len(e.peers) >= ticket.MaxUses: // no token has more
			continue
		case r.size+peerSize(p) > usedRoom:
			return false
		}
		e.peers[p] = true
		r.size += peerSize(p)
	}
	return true
}

// expired says that no peer admits with a token any more, even if its clock is behind ours.
func (r *Register) expired(now, expires uint64) bool { return isExpired(now, expires+tolerance) }

func (r *Register) forget(now uint64) {
	for id, e := range r.tokens {
		if r.expired(now, e.expires) {
			r.size -= Used{id, e.expires, slices.Collect(maps.Keys(e.peers))}.size()
			delete(r.tokens, id)
		}
	}
	if r.expired(now, r.lost) {
		r.lost = 0
	}
}

// Told returns all that is to be announced, in a fixed order.
func (r *Register) Told() Told {
	t := Told{Lost: r.lost}
	for id, e := range r.tokens {
		t.Used = append(t.Used, Used{id, e.expires, slices.Sorted(maps.Keys(e.peers))})
	}
	slices.SortFunc(t.Used, func(a, b Used) int { return slices.Compare(a.ID[:], b.ID[:]) })
	return t
}

// Within says whether the peer that announced this knows all that is known here.
func (r *Register) Within(t Told) bool {
	type use struct {
		token [ticket.IDSize]byte
		peer  slot.PeerID
	}
	theirs := make(map[use]bool)
	for _, u := range t.Used {
		for _, p := range u.Peers {
			theirs[use{u.ID, p}] = true
		}
	}
	for id, e := range r.tokens {
		for p := range e.peers {
			if !theirs[use{id, p}] {
				return false
			}
		}
	}
	return true
}

// Append appends the canonical bytes.
func (t Told) Append(b []byte) []byte {
	b = wire.AppendU32(wire.AppendU64(b, t.Lost), uint32(len(t.Used)))
	for _, u := range t.Used {
		b = wire.AppendU64(append(b, u.ID[:]...), u.Expires)
		b = wire.AppendU32(b, uint32(len(u.Peers)))
		for _, p := range u.Peers {
			b = wire.AppendBytes(b, p)
		}
	}
	return b
}

func readTold(r *wire.Reader) (t Told) {
	t.Lost = r.U64()
	for n := r.Count(usedRoom, Used{}.size()); n > 0 && r.Err() == nil; n-- {
		var u Used
		copy(u.ID[:], r.Take(len(u.ID)))
		u.Expires = r.U64()
		for p := r.Count(ticket.MaxUses, 4); p > 0 && r.Err() == nil; p-- {
			u.Peers = append(u.Peers, slot.PeerID(r.Bytes(slot.MaxPeerIDLen)))
		}
		t.Used = append(t.Used, u)
	}
	return t
}

// ParseTold reads what Append wrote.
func ParseTold(b []byte) (Told, error) {
	if len(b) > MaxAnswer {
		return Told{}, wire.ErrTooLarge
	}
	r := wire.NewReader(b)
	t := readTold(r)
	return t, r.Done()
}
