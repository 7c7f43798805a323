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

// least is what a stall takes at least, besides two round trips.
func (a Acks) least() time.Duration {
	if a.Program {
		return programStall
	}
	return leastStall
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
	conns   map[any]*stall
	counted time.Time // when a stall counted the last time
	news    bool      // something came since
	cut     cut       // what is taken for one
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

// cut is a time in which the link is taken to have been down. Of what was sent in it all has been
// acknowledged when it has waited for twice as long: so TCP sends again.
type cut struct {
	began time.Time // zero if there is none
	ended time.Time // when something came again; zero before that
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

// lookAt looks at a member's connections, of which some were seen before. The one that takes
// longest says for how long something may wait on any of them: what another one carries may have
// filled a queue on their way, and what is small waits behind it.
func (s *stalls) lookAt(id peer.ID, conns []any, now time.Time) {
	m := s.of[id]
	before := m.conns
	m.conns = make(map[any]*stall, len(conns))
	var trip time.Duration
	for _, c := range conns {
		of := before[c]
		if of == nil {
			of = &stall{ask: s.ask(c)}
		}
		if m.conns[c] = of; of.ask != nil {
			of.look(now)
			trip = max(trip, of.acks.Trip)
		}
	}
	stalls := m.judge(trip, now)
	s.signs.interruptions.hangs(id, !stalls.IsZero())
	if m.counts(stalls, trip, now) {
		s.env.Log.Debug("a connection stalls", "peer", id)
		s.signs.interruptions.stalled(id, now)
	}
}

// judge says since when the one of the connections has waited that stalls for longest; zero if none
// stalls.
func (m *member) judge(trip time.Duration, now time.Time) (since time.Time) {
	for _, c := range m.conns {
		m.news = m.news || c.grew
		if c.again && m.cut.ended.IsZero() {
			m.cut.ended = now
		}
		c.stalls = c.stalls || c.waits && now.Sub(c.since) >= c.acks.least()+2*trip
		if c.stalls && (since.IsZero() || c.since.Before(since)) {
			since = c.since
		}
	}
	return since
}

// counts says whether a stall counts, given since when the longest one waits. While the link is
// down all connections stall for one cause, and some for a moment longer. So after one that counts
// none does until there is none, unless it takes longer than one cut explains. Nor does one if
// nothing has come since the last one that did, or that was a moment ago.
func (m *member) counts(since time.Time, trip time.Duration, now time.Time) bool {
	switch {
	case since.IsZero():
		m.cut = cut{}
		return false
	case m.cut.began.IsZero():
		m.cut.began = since
	case m.cut.ended.IsZero() || now.Sub(m.cut.ended) < m.cut.ended.Sub(m.cut.began)+leastStall+2*trip:
		return false
	default:
		m.cut = cut{began: m.cut.ended}
	}
	if last := m.counted; !last.IsZero() && (!m.news || now.Sub(last) < 2*leastStall) {
		return false
	}
	m.counted, m.news = now, false
	return true
}

// stall is what was seen of a connection.
type stall struct {
	ask    func() Acks // nil: nothing is known
	acks   Acks
	waits  bool      // something waited at the last look
	since  time.Time // the first look at which that did
	stalls bool      // it has waited for too long
	grew   bool      // something came since the look before
	again  bool      // likewise, and it stalled then
}

// look asks a connection. What waits for the first time was sent at any time since the last look,
// perhaps just now.
func (s *stall) look(now time.Time) {
	before, first := s.acks, s.since.IsZero()
	s.acks = s.ask()
	s.grew = !first && s.acks.Came > before.Came
	s.again = s.grew && s.stalls
	if !s.acks.Waiting || !s.waits || s.acks.Count != before.Count {
		s.waits, s.since, s.stalls = s.acks.Waiting, now, false
	}
}
