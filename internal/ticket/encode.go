package ticket

import (
	"bytes"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

const (
	headSize  = 3 // wire.Version u8 | length of the whole u16
	checkSize = 8 // at the end
)

// append appends the canonical bytes of a valid ticket, between head and check.
func (t Ticket) append(b []byte) []byte {
	b = append(wire.AppendU8(b, uint8(len(t.Run))), t.Run...)
	b = append(b, t.RunID[:]...)
	b = append(wire.AppendU64(b, t.Height), t.Pin[:]...)
	b = wire.AppendU64(b, t.seconds())
	b = t.appendAddrs(b)
	b = wire.AppendBool(b, t.Token != nil)
	if t.Token == nil {
		return b
	}
	b = wire.AppendU32(append(b, t.Token.ID[:]...), t.Token.Uses)
	return append(append(b, t.Token.Tag[:]...), t.Token.Rendezvous[:]...)
}

// seconds returns the expiry as it is encoded: seconds since 1970, 0 for never.
func (t Ticket) seconds() uint64 {
	if t.Expires.IsZero() {
		return 0
	}
	return uint64(t.Expires.Unix())
}

// place is one peer and its addresses.
type place struct {
	id   []byte
	ways [][]byte
}

// places groups the addresses by peer, because a peer ID takes more room than anything else.
func (t Ticket) places() (all []place) {
	for _, a := range t.Addrs {
		way, id, err := split(a)
		if err != nil {
			continue // Validate has refused it
		}
		if n := len(all); n == 0 || !bytes.Equal(all[n-1].id, id) {
			all = append(all, place{id: id})
		}
		last := &all[len(all)-1]
		last.ways = append(last.ways, way)
	}
	return all
}

func (t Ticket) appendAddrs(b []byte) []byte {
	places := t.places()
	b = wire.AppendU8(b, uint8(len(places)))
	for _, p := range places {
		b = append(wire.AppendU8(b, uint8(len(p.id))), p.id...)
		b = wire.AppendU8(b, uint8(len(p.ways)))
		for _, way := range p.ways {
			b = append(wire.AppendU8(b, uint8(len(way))), way...)
		}
	}
	return b
}

// parse reads what append wrote. It encodes the ticket again to check that the bytes are canonical.
func parse(b []byte) (t Ticket, err error) {
	r := wire.NewReader(b)
	t.Run = string(short(r))
	t.RunID, t.Height, t.Pin = root(r), r.U64(), root(r)
	if s := r.U64(); s > 1<<40 {
		r.Fail("it expires %d s after 1970", s)
	} else if s > 0 {
		t.Expires = time.Unix(int64(s), 0).UTC()
	}
	t.Addrs = readAddrs(r)
	if r.Bool() {
		t.Token = &Token{}
		copy(t.Token.ID[:], r.Take(IDSize))
		t.Token.Uses = r.U32()
		copy(t.Token.Tag[:], r.Take(TagSize))
		copy(t.Token.Rendezvous[:], r.Take(RendezvousSize))
	}
	if err := r.Done(); err != nil {
		return Ticket{}, err
	}
	if err := t.Validate(); err != nil {
		return Ticket{}, err
	}
	if !bytes.Equal(t.append(nil), b) {
		r.Fail("not as a ticket is written")
	}
	return t, r.Err()
}

func readAddrs(r *wire.Reader) (addrs []string) {
	for places := r.U8(); places > 0 && r.Err() == nil; places-- {
		id := short(r)
		for ways := r.U8(); ways > 0 && r.Err() == nil; ways-- {
			addr, err := join(short(r), id)
			if err != nil || len(addrs) >= MaxAddrs {
				r.Fail("address %d: %v", len(addrs), err)
			}
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// short reads a length of one byte, and then that number of bytes.
func short(r *wire.Reader) []byte { return r.Take(int(r.U8())) }

func root(r *wire.Reader) (v slot.Root) {
	copy(v[:], r.Take(len(v)))
	return v
}
