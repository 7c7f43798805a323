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
	// so many stalls within a while count as a connection that comes and goes
	stallsCount  = 3
	stallsWithin = 10 * time.Second
	// all members' connections are looked at so often, where there are fewer than looksAtOnce, and
	// less often where there are more
	stallLook   = 100 * time.Millisecond
	looksAtOnce = 16
)

// Acks is what the near end of a connection knows of the other one. Over TCP it needs nothing of
// the program there: systems acknowledge, however busy their programs are.
type Acks struct {
	Count   uint64        // grows as more is acknowledged
	Waiting bool          // something was sent that is not acknowledged
	Came    uint64        // grows with what comes
	Trip    time.Duration // there and back
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
	of    map[any]*stall      // by connection
	last  map[peer.ID]counted // the newest stall of each member
	turn  int
}

// counted is a stall that was counted.
type counted struct {
	at   time.Time
	came uint64 // what had come by then
}

// WatchStalls begins to look for stalls of members' connections, which conns returns. ask returns
// what tells of one of them; nil if nothing does. It ends with the task group.
func WatchStalls(env peers.Env, signs *Signs, conns func() map[peer.ID][]any, ask func(any) func() Acks) {
	s := &stalls{env: env, signs: signs, conns: conns, ask: ask, last: make(map[peer.ID]counted)}
	env.Tasks.Go(func() { env.Tasks.Every(stallLook, s.look) })
}

func (s *stalls) look(now time.Time) {
	members := s.env.Members.List()
	if s.turn++; s.turn <= len(members)/looksAtOnce {
		return
	}
	s.turn = 0
	before, last, conns := s.of, s.last, s.conns()
	s.of, s.last = make(map[any]*stall, len(before)), make(map[peer.ID]counted, len(members))
	for _, id := range members {
		s.last[id] = last[id]
		s.lookAt(id, conns[id], before, now)
	}
}

// lookAt looks at a member's connections, of which some were seen before. While the link is down
// all of them stall for one cause, and some for a moment longer. So a stall counts if something has
// come since the last one that did, and that was a while ago.
func (s *stalls) lookAt(id peer.ID, conns []any, before map[any]*stall, now time.Time) {
	var begins, hangs bool
	var came uint64
	for _, c := range conns {
		of := before[c]
		if of == nil {
			of = &stall{ask: s.ask(c)}
		}
		if s.of[c] = of; of.ask == nil {
			continue
		}
		acks := of.ask()
		came += acks.Came
		begins = of.begins(acks, now) || begins
		hangs = hangs || of.next > 0
	}
	s.signs.interruptions.hangs(id, hangs)
	if last := s.last[id]; begins && came != last.came && now.Sub(last.at) >= 2*leastStall {
		s.env.Log.Debug("a connection stalls", "peer", id)
		s.signs.interruptions.stalled(id, now)
		s.last[id] = counted{now, came}
	}
}

// stall is what was seen of a connection.
type stall struct {
	ask   func() Acks // nil: nothing is known
	count uint64
	since time.Time     // when it waited for nothing, or more was acknowledged
	next  time.Duration // for which it must have waited to stall again; 0: it does not stall
}

// begins says whether a connection has waited for too long by now: once, and again when it has
// waited for twice as long.
func (s *stall) begins(a Acks, now time.Time) bool {
	if !a.Waiting || a.Count != s.count {
		s.count, s.since, s.next = a.Count, now, 0
		return false
	}
	most := max(s.next, leastStall+2*a.Trip)
	if now.Sub(s.since) < most {
		return false
	}
	s.next = 2 * most
	return true
}
