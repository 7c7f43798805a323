package p2p

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const (
	// pulsesMissed is how many pulses' time a member may send nothing before its connections are closed.
	pulsesMissed = 3
	// pulsesExcused is for how many pulses' time what comes on bulk connections stands for them: libp2p's connection, over which all else goes,
	// may have died alone. On a link that is full a pulse may be late by some seconds.
	pulsesExcused = 30
	// redialTimeout bounds the one attempt to connect again at once.
	redialTimeout = 5 * time.Second
)

// pulses notices members whose connections have gone silent. A reset over TCP shows at once that a process has died; over QUIC, or
// where a link is cut, libp2p takes 30 to 45 s. So members send each other a byte every Config.Pulse, over the connection they have,
// and who has sent neither that nor anything else on a stream of ours for three times that is disconnected: then all that
// waits for it learns of it. Bulk connections are others than libp2p's: bytes there are a sign of life for a while only.
//
// Only who pulses is judged, by what it sends and not by what it answers: pulses behind bulk in the other direction may take
// their time. A connection that breaks is dialled once more at once: from who lives it comes back in a moment.
type pulses struct {
	n    *Network
	post *Messenger
	news network.Notifiee
	mu   struct {
		sync.Mutex
		heard     map[peer.ID]heard    // peers that pulse over the present connections
		redialled map[peer.ID]struct{} // members being dialled again
	}
}

// heard is when a peer last sent something.
type heard struct {
	atAll time.Time
	here  time.Time // over libp2p's connections
}

// startPulses begins to serve and to send.
func startPulses(n *Network) *pulses {
	p := &pulses{n: n}
	p.mu.heard = make(map[peer.ID]heard)
	p.mu.redialled = make(map[peer.ID]struct{})
	p.post = n.NewMessenger(ProtocolPulse, 1, p.arrived, nil)
	p.news = p.watch()
	n.host.Network().Notify(p.news)
	n.goDo(p.run)
	return p
}

// arrived notes a pulse. Whoever is connected may send one, members or not yet.
func (p *pulses) arrived(from slot.PeerID, _ []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.mu.heard[peer.ID(from)] = heard{now, now}
}

// send pulses to a member that is connected.
func (p *pulses) send(id peer.ID) {
	if p.n.host.Network().Connectedness(id) == network.Connected {
		p.post.Send(slot.PeerID(id), []byte{0})
	}
}

// saw notes that something came on a stream: a bulk stream, or one of libp2p's connections.
func (p *pulses) saw(id peer.ID, bulk bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, pulsing := p.mu.heard[id]
	if !pulsing {
		return
	}
	if h.atAll = time.Now(); !bulk {
		h.here = h.atAll
	}
	p.mu.heard[id] = h
}

// forget judges a peer no more until its next pulse.
func (p *pulses) forget(id peer.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.heard, id)
}

// watch starts anew with each connection: behind it may be another process, which has not come to pulsing yet.
func (p *pulses) watch() network.Notifiee {
	return &network.NotifyBundle{
		ConnectedF: func(_ network.Network, c network.Conn) {
			id := c.RemotePeer()
			p.forget(id)
			if p.n.isProtected(id) {
				p.post.Send(slot.PeerID(id), []byte{0})
			}
		},
		DisconnectedF: func(w network.Network, c network.Conn) {
			if id := c.RemotePeer(); w.Connectedness(id) != network.Connected {
				p.forget(id)
				p.redial(id)
			}
		},
	}
}

// redial tries once to have a member's connection back.
func (p *pulses) redial(id peer.ID) {
	if !p.n.isProtected(id) {
		return
	}
	p.mu.Lock()
	_, under := p.mu.redialled[id]
	p.mu.redialled[id] = struct{}{}
	p.mu.Unlock()
	if under {
		return
	}
	done := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.mu.redialled, id)
	}
	started := p.n.goDo(func() {
		defer done()
		ctx, cancel := context.WithTimeout(p.n.ctx, redialTimeout)
		defer cancel()
		if err := p.n.dial(ctx, peer.AddrInfo{ID: id}); err != nil {
			p.n.log.Debug("a member whose connection broke does not answer", "peer", id, "err", err)
		}
	})
	if !started {
		done()
	}
}

func (p *pulses) run() {
	every := time.NewTicker(p.n.cfg.Pulse)
	defer every.Stop()
	for last := time.Now(); ; {
		select {
		case <-p.n.ctx.Done():
			return
		case <-every.C:
		}
		now := time.Now()
		if now.Sub(last) > 2*p.n.cfg.Pulse {
			p.excuse(now)
		}
		last = now
		p.beat(now)
	}
}

// excuse judges nobody by the time that this process itself stood still.
func (p *pulses) excuse(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.mu.heard {
		p.mu.heard[id] = heard{now, now}
	}
}

// beat pulses to every member that is connected, and disconnects those that are silent.
func (p *pulses) beat(now time.Time) {
	for _, id := range p.n.protectedPeers() {
		p.send(id)
	}
	for _, id := range p.silent(now) {
		p.n.log.Debug("a member is silent: disconnecting", "peer", id)
		p.n.goDo(func() { _ = p.n.host.Network().ClosePeer(id) }) // it is gone in any case
	}
}

// silent lists the members that have sent nothing for too long, and forgets whoever has not.
func (p *pulses) silent(now time.Time) (ids []peer.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, h := range p.mu.heard {
		if now.Sub(h.atAll) <= pulsesMissed*p.n.cfg.Pulse && now.Sub(h.here) <= pulsesExcused*p.n.cfg.Pulse {
			continue
		}
		delete(p.mu.heard, id)
		if p.n.isProtected(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (n *Network) isProtected(id peer.ID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.mu.protected[id]
	return ok
}

func (n *Network) protectedPeers() []peer.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids := make([]peer.ID, 0, len(n.mu.protected))
	for id := range n.mu.protected {
		ids = append(ids, id)
	}
	return ids
}
