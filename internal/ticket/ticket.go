package ticket

import (
	"errors"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Bounds on a ticket.
const (
	MaxAddrs = 16   // addresses
	MaxRun   = 128  // bytes of the run's name
	MaxUses  = 1024 // of a token
	maxAddr  = 255  // bytes of one address, without its peer ID
	maxBytes = 4096 // of the whole, encoded
)

// Sizes of a token's parts, in bytes.
const (
	IDSize         = 16
	TagSize        = 32
	RendezvousSize = 16
)

// Ticket is an invitation to a run.
type Ticket struct {
	Run     string    // the run's name
	RunID   slot.Root // hash of its spec
	Height  uint64    // of the pinned record
	Pin     slot.Root // hash of a certified record of the run's chain
	Expires time.Time // to the second, UTC; zero: never
	// multiaddrs ending in /p2p/PEER, those of one peer next to each other, the likeliest first
	Addrs []string
	Token *Token // admits a newcomer to a private run; nil if the run is open
}

// Token makes a private run's members admit a newcomer. A newcomer that has it can be admitted, but
// cannot make another token.
type Token struct {
	ID   [IDSize]byte
	Uses uint32 // peers that it admits
	// proves that a member made it, for this ID, expiry and number of uses
	Tag        [TagSize]byte
	Rendezvous [RendezvousSize]byte // under which the run's peers announce themselves
}

// MaxTTL is the longest time for which a ticket can be valid.
const MaxTTL = 366 * 24 * time.Hour

// Grace is the time by which clocks may differ. A ticket stays valid for this much longer than it
// says.
const Grace = 2 * time.Minute

// Expired says whether the ticket has expired by all clocks that are about right.
func (t Ticket) Expired(now time.Time) bool { return !t.Expires.IsZero() && now.Sub(t.Expires) > Grace }

// Validate reports every fault at once.
func (t Ticket) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("ticket: "+format, args...)) }
	if t.Run == "" || len(t.Run) > MaxRun || !printable(t.Run) {
		bad("a run's name of %d bytes: 1 to %d are allowed, without spaces and control characters", len(t.Run), MaxRun)
	}
	if t.RunID.IsZero() || t.Pin.IsZero() {
		bad("the run's ID or the pinned record's hash is missing")
	}
	if len(t.Addrs) == 0 || len(t.Addrs) > MaxAddrs {
		bad("%d addresses: 1 to %d are allowed", len(t.Addrs), MaxAddrs)
	}
	if !t.Expires.IsZero() && (t.Expires.Unix() <= 0 || t.Expires.Nanosecond() != 0) {
		bad("it expires at %s: a whole second after 1970 is allowed", t.Expires)
	}
	if t.Token != nil && (t.Token.Uses < 1 || t.Token.Uses > MaxUses || t.Expires.IsZero()) {
		bad("a token admits 1 to %d peers, not %d, and expires", MaxUses, t.Token.Uses)
	}
	for _, a := range t.Addrs {
		if _, _, err := split(a); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func printable(s string) bool {
	for _, r := range s {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}

// Usable says whether an address can be in a ticket. Peers may announce anything, even names with
// spaces in them.
func Usable(addr string) bool {
	_, _, err := split(addr)
	return err == nil
}

// split divides an address into the path to a peer and the peer's ID.
func split(addr string) (way, id []byte, err error) {
	a, err := multiaddr.NewMultiaddr(addr)
	if err != nil {
		return nil, nil, fmt.Errorf("ticket: address %.100q: %w", addr, err)
	}
	rest, last := multiaddr.SplitLast(a)
	if last == nil || last.Protocol().Code != multiaddr.P_P2P || len(rest) == 0 {
		return nil, nil, fmt.Errorf("ticket: address %.100q does not end in /p2p/PEER", addr)
	}
	way, id = rest.Bytes(), last.RawValue()
	if len(way) > maxAddr || len(id) > slot.MaxPeerIDLen || !printable(addr) || a.String() != addr {
		return nil, nil, fmt.Errorf("ticket: address %.100q is too long or not spelt as usual", addr)
	}
	return way, id, nil
}

// join is the opposite of split.
func join(way, id []byte) (string, error) {
	b := append([]byte(nil), way...)
	// the code of p2p as a varint, and the length, which takes one byte
	b = append(b, 0xa5, 0x03, byte(len(id)))
	a, err := multiaddr.NewMultiaddrBytes(append(b, id...))
	if err != nil {
		return "", err
	}
	return a.String(), nil
}
