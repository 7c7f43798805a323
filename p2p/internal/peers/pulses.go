package peers

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ProtocolPulse is the ID of the streams on which members send pulses.
const ProtocolPulse = "/p2pdiloco/pulse/1.0.0"

// Pulses notices members whose connections have gone silent. A reset over TCP shows at once that a
// process has died; over QUIC, or where a link is cut, libp2p takes 30 to 45 s. So members send
// each other a few bytes at a fixed interval, over the connection they have. A member that has sent
// neither that nor anything else on a stream of ours for three intervals is disconnected: then all
// that waits for it learns of it. Bulk connections are others than libp2p's: bytes there are a sign
// of life for a while only.
//
// Only peers that pulse are judged, by what they send and not by what they answer: pulses behind
// bulk in the other direction may take their time.
//
// Relays that are no members pulse to nobody: those in use are pinged, and an answer is a pulse. On
// a link that is full a ping may take long; what comes through the relay is a sign of its life,
// too.
type Pulses struct {
	env    Env
	every  time.Duration
	signs  *Signs
	post   func(to slot.PeerID, msg []byte)
	relays func() map[peer.ID]bool
	beats  int
}

// NewPulses begins to pulse. post sends one message on ProtocolPulse, an empty one, and does not
// wait; the caller has the messages that come there noted in signs. relays are those in use. It
// ends with the task group.
func NewPulses(env Env, every time.Duration, signs *Signs, post func(to slot.PeerID, msg []byte),
	relays func() map[peer.ID]bool,
) *Pulses {
	p := &Pulses{env: env, every: every, signs: signs, post: post, relays: relays}
	env.Notify(p.watch())
	env.Tasks.Go(func() { env.Tasks.Every(every, func(time.Time) { p.beat() }) })
	return p
}

// Send pulses to a member that is connected.
func (p *Pulses) Send(id peer.ID) {
	if p.env.Connected(id) {
		p.post(slot.PeerID(id), nil)
	}
}

// watch starts again with each connection: behind it may be another process, which has not come to
// pulsing yet.
func (p *Pulses) watch() network.Notifiee {
	return &network.NotifyBundle{
		ConnectedF: func(_ network.Network, c network.Conn) {
			id := c.RemotePeer()
			p.signs.forget(id)
			if p.env.Members.Has(id) {
				p.post(slot.PeerID(id), nil)
			}
		},
		DisconnectedF: func(w network.Network, c network.Conn) {
			if id := c.RemotePeer(); w.Connectedness(id) != network.Connected {
				p.signs.forget(id)
			}
		},
	}
}

// Pulses of this many a second go to all members together: the more these are, the more seldom each
// gets one, to a bound.
const (
	pulsesMost   = 4
	pulsesSeldom = 3 * time.Second
)

// beat pulses to every member that is connected, and disconnects those that are silent.
func (p *Pulses) beat() {
	members := p.env.Members.List()
	p.beats++
	between := min(time.Duration((len(members)+1)/pulsesMost)*time.Second, pulsesSeldom)
	if between > p.every && time.Duration(p.beats)*p.every%between >= p.every {
		return
	}
	for _, id := range members {
		p.Send(id)
	}
	relays := p.relays()
	for id := range relays {
		if !p.env.Members.Has(id) {
			p.env.Tasks.Go(func() { p.ask(id) })
		}
	}
	missed := func(id peer.ID) int {
		switch {
		case p.env.Members.Has(id):
			return pulsesMissed
		case relays[id]: // what is relayed may be before it in the queue
			return max(pulsesMissed, int(leastRelaySilence/p.every))
		}
		return math.MaxInt
	}
	for _, id := range p.signs.popSilent(missed) {
		p.env.Log.Debug("a member or relay is silent: disconnecting", "peer", id)
		p.env.Tasks.Go(func() { _ = p.env.Host.Network().ClosePeer(id) }) // it is gone in any case
	}
}

// ask pings a relay.
func (p *Pulses) ask(id peer.ID) {
	ctx, cancel := context.WithTimeout(p.env.Tasks.Context(), leastRelaySilence)
	defer cancel()
	if _, err := Ping(ctx, p.env.Host, id); err == nil {
		p.signs.Pulsed(id)
	}
}

// Ping is one round trip to a peer that is connected.
func Ping(ctx context.Context, h host.Host, id peer.ID) (time.Duration, error) {
	ctx, cancel := context.WithCancel(network.WithNoDial(ctx, "ping"))
	defer cancel()
	select {
	case r := <-ping.Ping(ctx, h, id):
		return r.RTT, r.Error
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

const (
	// pulsesMissed is for how many of this peer's own pulses a member may send nothing before its
	// connections are closed.
	pulsesMissed = 3
	// pulsesExcused is for how many of them bytes on bulk connections stand for pulses: libp2p's
	// connection, over which all else goes, may have died alone. On a link that is full a pulse may
	// be late by some seconds.
	pulsesExcused = 30
	// leastRelaySilence is how long a relay may leave pings unanswered at least.
	leastRelaySilence = 5 * time.Second
)

// Signs are the signs of life of peers that pulse over their present connections. Other peers are
// not judged: they may be strangers.
//
// Silence is counted in this peer's own pulses, not by a clock. A process that stood still, or that
// a loaded machine makes late, has not heard what waits in the kernel, and the others on that
// machine are as late: it counts fewer pulses, and judges nobody by its own lateness.
type Signs struct {
	mu struct {
		sync.Mutex
		pulses int // that this peer has sent
		heard  map[peer.ID]heard
	}
}

// heard is after how many own pulses a peer last sent something.
type heard struct {
	atAll int
	here  int // over libp2p's connections
}

// NewSigns begins without any.
func NewSigns() *Signs {
	s := &Signs{}
	s.mu.heard = make(map[peer.ID]heard)
	return s
}

// Pulsed notes a pulse, or the answer to a ping. Any peer that is connected may send one, members
// or not yet.
func (s *Signs) Pulsed(id peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.heard[id] = heard{s.mu.pulses, s.mu.pulses}
}

// Saw notes that something came on a stream: a bulk stream, or one of libp2p's connections.
func (s *Signs) Saw(id peer.ID, bulk bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h, pulsing := s.mu.heard[id]
	if !pulsing {
		return
	}
	if h.atAll = s.mu.pulses; !bulk {
		h.here = s.mu.pulses
	}
	s.mu.heard[id] = h
}

// forget judges a peer no more until its next pulse.
func (s *Signs) forget(id peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.heard, id)
}

// popSilent counts a pulse of this peer's, lists the peers that have sent nothing for more than
// they may miss, and forgets them.
func (s *Signs) popSilent(missed func(peer.ID) int) (ids []peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.pulses++
	for id, h := range s.mu.heard {
		if most := missed(id); s.mu.pulses-h.atAll > most || s.mu.pulses-h.here > max(most, pulsesExcused) {
			delete(s.mu.heard, id)
			ids = append(ids, id)
		}
	}
	return ids
}
