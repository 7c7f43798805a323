package membership

import (
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// These bound what waits for the next record, of one member and of all. Sizes are in bytes.
const (
	maxEarlyFrom      = 16
	maxEarly          = 256
	maxEarlyFromBytes = 8 << 20
	maxEarlyBytes     = 32 << 20
)

// early keeps messages for the height after the open one, in the order in which they came.
type early []earlyMessage

type earlyMessage struct {
	wire.Message
	size int // in bytes, encoded
}

// add keeps a message. Older ones of its sender make room for it. Where all members together have
// sent too much, the oldest message of the one that has sent most goes: so no member pushes out
// what another one has sent, unless that one has sent as much.
func (ea *early) add(msg wire.Message) {
	*ea = append(*ea, earlyMessage{msg, wire.Size(msg.Body)})
	one := func(earlyMessage) int { return 1 }
	size := func(m earlyMessage) int { return m.size }
	for ea.sum(one, msg.From) > maxEarlyFrom || ea.sum(size, msg.From) > maxEarlyFromBytes {
		ea.dropOldest(msg.From)
	}
	for len(*ea) > maxEarly {
		ea.dropOldest(ea.most(one))
	}
	for ea.sum(size, "") > maxEarlyBytes {
		ea.dropOldest(ea.most(size))
	}
}

// sum adds up a measure of the messages of one member, or of all if none is named.
func (ea early) sum(of func(earlyMessage) int, from slot.PeerID) (n int) {
	for _, m := range ea {
		if from == "" || m.From == from {
			n += of(m)
		}
	}
	return n
}

// most returns the member whose messages have the greatest sum; of equal ones the one that sent
// last.
func (ea early) most(of func(earlyMessage) int) (p slot.PeerID) {
	most := -1
	for _, m := range slices.Backward(ea) {
		if n := ea.sum(of, m.From); n > most {
			p, most = m.From, n
		}
	}
	return p
}

func (ea *early) dropOldest(from slot.PeerID) {
	i := slices.IndexFunc(*ea, func(m earlyMessage) bool { return m.From == from })
	*ea = slices.Delete(*ea, i, i+1)
}

// drain returns the messages, and keeps none.
func (ea *early) drain() (messages []wire.Message) {
	for _, m := range *ea {
		messages = append(messages, m.Message)
	}
	*ea = nil
	return messages
}
