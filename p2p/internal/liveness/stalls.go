package liveness

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

const (
	// TCP sends a lone packet that was lost again after 200 ms and a round trip, and the other side
	// may keep its acknowledgement back for as long. What takes longer than this and two round
	// trips is a stall.
	leastStall = 250 * time.Millisecond
	// likewise where a program acknowledges, which may get no processor for a moment
	programStall = time.Second
	// so many stalls within a while count as a connection that comes and goes
	stallsCount  = 3
	stallsWithin = 10 * time.Second
	// members' connections are looked at so often. With looksAtOnce members and more those on which
	// nothing waited at the last look take turns.
	stallLook   = 100 * time.Millisecond
	looksAtOnce = 16
)

// Acks is what the near end of a connection knows of the other one. Over TCP it needs nothing of
// the program there: systems acknowledge, however busy their programs are. Over QUIC programs do.
type Acks struct {
	Count   uint64        // grows as more is acknowledged
	Waiting bool          // something was sent that is not acknowledged
	Came    uint64        // grows with what comes
	Trip    time.Duration // there and back
	Program bool          // a program acknowledges
}

// most is for how long something may wait without a stall.
func (a Acks) most() time.Duration {
	if a.Program {
		return programStall + 2*a.Trip
	}
	return leastStall + 2*a.Trip
}

// stalls notices connections on which what was sent is not acknowledged for longer than a lost
// packet explains. A link that is down half of the time, for a moment each, looks alive by all that
// passes. But TCP sends again after times that double, which may fall into such moments again and
// again, so that a message may take many seconds.
type stalls struct {
	env   peers.Env
	signs *Signs
	conns func() map[peer.ID][]any
	ask   func(any) func() Acks
	of    map[peer.ID]*member
	turn  int
}

// member is what was seen of one's connections.
type member struct {
	conns map[any]*stall
	last  counted // the newest stall
}

// waits says whether something waited at the last look.
func (m *member) waits() bool {
	for _, c := range m.conns {
		if c.waits {
			return true
		}
	}
	return false
}

// counted is a stall that was counted.
type counted struct {
	at   time.Time
	came uint64 // what had come by then
}

// WatchStalls begins to look for stalls of members' connections, which conns returns. ask returns
// what tells of one of them; nil if nothing does. It ends with the task group.
func WatchStalls(env peers.Env, signs *Signs, conns func() map[peer.ID][]any, ask func(any) func() Acks) {
	s := &stalls{env: env, signs: signs, conns: conns, ask: ask}
	env.Tasks.Go(func() { env.Tasks.Every(stallLook, s.look) })
}

func (s *stalls) look(now time.Time) {
	members, conns, before := s.env.Members.List(), s.conns(), s.of
	turns := len(members)/looksAtOnce + 1
	s.turn = (s.turn + 1) % turns
	s.of = make(map[peer.ID]*member, len(members))
	for i, id := range members {
		m := before[id]
		if m == nil {
			m = &member{}
		}
		if s.of[id] = m; i%turns == s.turn || m.waits() {
			s.lookAt(id, conns[id], now)
		}
	}
}

// lookAt looks at a member's connections, of which some were seen before. While the link is down
// all of them stall for one cause, and some for a moment longer. So a stall counts if something has
// come since the last one that did, and that was a while ago.
func (s *stalls) lookAt(id peer.ID, conns []any, now time.Time) {
	m := s.of[id]
	before := m.conns
	m.conns = make(map[any]*stall, len(conns))
	var begins, hangs bool
	var came uint64
	for _, c := range conns {
		of := before[c]
		if of == nil {
			of = &stall{ask: s.ask(c)}
		}
		if m.conns[c] = of; of.ask == nil {
			continue
		}
		acks := of.ask()
		came += acks.Came
		begins = of.begins(acks, now) || begins
		hangs = hangs || of.next > 0
	}
	s.signs.interruptions.hangs(id, hangs)
	if last := m.last; begins && came != last.came && now.Sub(last.at) >= 2*leastStall {
		s.env.Log.Debug("a connection stalls", "peer", id)
		s.signs.interruptions.stalled(id, now)
		m.last = counted{now, came}
	}
}

// stall is what was seen of a connection.
type stall struct {
	ask   func() Acks // nil: nothing is known
	count uint64
	waits bool          // something waited at the last look
	since time.Time     // the first look at which that did
	next  time.Duration // for which it must have waited to stall again; 0: it does not stall
}

// begins says whether a connection has waited for too long by now: once, and again when it has
// waited for twice as long. What waits for the first time was sent at any time since the last look,
// perhaps just now.
func (s *stall) begins(a Acks, now time.Time) bool {
	if !a.Waiting || a.Count != s.count || !s.waits {
		s.waits, s.count, s.since, s.next = a.Waiting, a.Count, now, 0
		return false
	}
	most := max(s.next, a.most())
	if now.Sub(s.since) < most {
		return false
	}
	s.next = 2 * most
	return true
}
