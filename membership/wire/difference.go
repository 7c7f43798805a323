package wire

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	canonical "github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// difference is what makes one list of members of another one, both sorted by peer.
type difference struct {
	left    []int         // places in the list before
	joined  []slot.Member // also whoever comes back as another incarnation
	seats   []seatChange  // of those who stay, in order
	credits slot.Bitmap   // over the list after: whose credit changed; empty: nobody's
	credit  []uint16      // that they have now
}

// seatChange says since when the member at a place of the list after has a seat; 0: it has none.
type seatChange struct {
	place int
	seat  uint64
}

const (
	leastDifference = 4 * 4
	joinedSize      = 4 + 8 + 8 + 8 + 2 // bytes of an entry, at least
)

func differenceOf(before, after []slot.Member) (d difference) {
	credits, i := slot.NewBitmap(len(after)), 0
	for place, m := range after {
		for ; i < len(before) && before[i].Peer < m.Peer; i++ {
			d.left = append(d.left, i)
		}
		if i == len(before) || before[i].Peer != m.Peer {
			d.joined = append(d.joined, m)
			continue
		}
		was := before[i]
		if was.Incarnation != m.Incarnation || was.Since != m.Since {
			d.left, d.joined = append(d.left, i), append(d.joined, m)
		} else {
			if was.Seat != m.Seat {
				d.seats = append(d.seats, seatChange{place, m.Seat})
			}
			if was.Credit != m.Credit {
				credits.Set(place)
				d.credit = append(d.credit, m.Credit)
			}
		}
		i++
	}
	for ; i < len(before); i++ {
		d.left = append(d.left, i)
	}
	if len(d.credit) > 0 {
		d.credits = credits
	}
	return d
}

func (d difference) append(b []byte) []byte {
	b = appendPlaces(b, d.left)
	b = canonical.AppendU32(b, uint32(len(d.joined)))
	for _, m := range d.joined {
		b = canonical.AppendU64(canonical.AppendU64(appendPeer(b, m.Peer), uint64(m.Incarnation)), m.Since)
		b = canonical.AppendU16(canonical.AppendU64(b, m.Seat), m.Credit)
	}
	b = canonical.AppendU32(b, uint32(len(d.seats)))
	for _, s := range d.seats {
		b = canonical.AppendU64(canonical.AppendU16(b, uint16(s.place)), s.seat)
	}
	b = canonical.AppendBytes(b, d.credits)
	for _, c := range d.credit {
		b = canonical.AppendU16(b, c)
	}
	return b
}

func readDifference(r *canonical.Reader) (d difference) {
	d.left = readPlaces(r, slot.MaxMembers)
	for i := range r.Count(slot.MaxMembers, joinedSize) {
		m := slot.Member{Peer: readPeer(r), Incarnation: readIncarnation(r)}
		m.Since, m.Seat, m.Credit = r.U64(), r.U64(), r.U16()
		if i > 0 && d.joined[i-1].Peer >= m.Peer {
			r.Fail("members join in another order than that of their peers")
		}
		d.joined = append(d.joined, m)
	}
	for range r.Count(slot.MaxMembers, 2+8) {
		d.seats = append(d.seats, seatChange{int(r.U16()), r.U64()})
	}
	d.credits = r.Bytes(slot.MaxMembers / 8)
	for range d.credits.Count() {
		d.credit = append(d.credit, r.U16())
	}
	return d
}

// apply makes the list after of the list before, which it leaves as it is. What cannot be done is a
// fault of the reader.
func (d difference) apply(r *canonical.Reader, before []slot.Member) []slot.Member {
	after := d.merge(r, before)
	for _, s := range d.seats {
		if s.place >= len(after) {
			r.Fail("a seat for member %d of %d", s.place, len(after))
			return nil
		}
		after[s.place].Seat = s.seat
	}
	if len(d.credits) > 0 && !d.credits.Fits(len(after)) {
		r.Fail("%d bytes say which of %d members have other credit", len(d.credits), len(after))
		return nil
	}
	next := 0
	for i := range after {
		if d.credits.Has(i) {
			after[i].Credit = d.credit[next]
			next++
		}
	}
	return after
}

// merge takes out who left, and puts in who joined.
func (d difference) merge(r *canonical.Reader, before []slot.Member) (after []slot.Member) {
	if n := len(d.left); r.Err() != nil || n > 0 && d.left[n-1] >= len(before) {
		r.Fail("a member leaves that is not among the %d before", len(before))
		return nil
	}
	if n := len(before) - len(d.left) + len(d.joined); n > slot.MaxMembers {
		r.Fail("%d members", n)
		return nil
	} else if n > 0 {
		after = make([]slot.Member, 0, n)
	}
	left, joined := d.left, d.joined
	for i, m := range before {
		if len(left) > 0 && left[0] == i {
			left = left[1:]
			continue
		}
		for len(joined) > 0 && joined[0].Peer < m.Peer {
			after, joined = append(after, joined[0]), joined[1:]
		}
		if len(joined) > 0 && joined[0].Peer == m.Peer {
			r.Fail("a member joins that is there")
			return nil
		}
		after = append(after, m)
	}
	return append(after, joined...)
}

// appendEvicted appends what makes one list of evicted keys of another one: the places of those
// that are on it no more, then those that are new.
func appendEvicted(b []byte, before, after []slot.PeerID) []byte {
	var gone []int
	kept := 0
	for i, p := range before {
		if kept < len(after) && after[kept] == p {
			kept++
		} else {
			gone = append(gone, i)
		}
	}
	b = appendPlaces(b, gone)
	b = canonical.AppendU32(b, uint32(len(after)-kept))
	for _, p := range after[kept:] {
		b = appendPeer(b, p)
	}
	return b
}

func readEvicted(r *canonical.Reader, before []slot.PeerID) (after []slot.PeerID) {
	gone := readPlaces(r, slot.MaxEvicted)
	if n := len(gone); n > 0 && gone[n-1] >= len(before) {
		r.Fail("an evicted key goes that is not among the %d before", len(before))
		return nil
	}
	for i, p := range before {
		if len(gone) > 0 && gone[0] == i {
			gone = gone[1:]
		} else {
			after = append(after, p)
		}
	}
	for range r.Count(slot.MaxEvicted, 4) {
		p := readPeer(r)
		if slices.Contains(after, p) {
			r.Fail("a key is evicted twice")
		}
		after = append(after, p)
	}
	if len(after) > slot.MaxEvicted {
		r.Fail("%d evicted keys", len(after))
	}
	return after
}

func appendPlaces(b []byte, places []int) []byte {
	b = canonical.AppendU32(b, uint32(len(places)))
	for _, p := range places {
		b = canonical.AppendU16(b, uint16(p))
	}
	return b
}

// readPlaces reads ascending places in a list.
func readPlaces(r *canonical.Reader, most int) (places []int) {
	for i := range r.Count(most, 2) {
		p := int(r.U16())
		if i > 0 && places[i-1] >= p {
			r.Fail("places that do not ascend")
		}
		places = append(places, p)
	}
	return places
}
