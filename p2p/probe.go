package p2p

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multiaddr"

	"github.com/p2pdiloco/p2pdiloco/internal/failpoint"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/p2p/internal/peers"
)

// A probe is one stream, on which nothing is answered that was not asked for:
//
//  1. the asker says how many bytes it would send and how many it would have
//  2. the answerer says how many it will take and give, and from which address the asker comes
//  3. some round trips of a byte, answered with the time of day
//  4. the asker sends its bytes, and learns how fast they came
//  5. the answerer sends its bytes
//
// Anybody may ask. So what is taken and given is bounded: for an address, as a new identity costs
// nothing, and for all together. A peer that has had its share still learns the time. Bytes given
// keep to Config.MaxUpload.
const (
	MaxProbe = 8 << 20 // bytes each way of one probe
	// bytes, both ways, of all peers at one address (IPv6: the /56) in a probeWindow
	probeSite    = 64 << 20
	probeAll     = 256 << 20 // of all: 3.6 Mbit/s
	probeWindow  = 10 * time.Minute
	probeTimeout = time.Minute // of one probe
	maxProbers   = 1024        // addresses in a window that are given any bytes
	probeTrips   = 4           // round trips
	probeChunk   = 64 << 10    // bytes
	maxProbeTalk = 512         // bytes of what both sides say about a probe
)

// Probe is what a probe of a peer showed.
type Probe struct {
	RTT time.Duration `json:"rtt_ns"` // the shortest of some
	// of its clock against ours, to half of RTT; greater: it is ahead
	Offset time.Duration `json:"offset_ns"`
	// bytes a second from here to there; 0: not measured
	Up       float64 `json:"up"`
	Down     float64 `json:"down"`               // and from there to here
	Observed string  `json:"observed,omitempty"` // multiaddr that it sees this peer at
	Addr     string  `json:"addr"`               // multiaddr that it is reached at
}

// prober answers probes.
type prober struct {
	n   *Network
	now func() time.Time // of day
	mu  struct {
		sync.Mutex
		began time.Time // of the window
		all   int
		used  map[string]int // by addr.Subscriber
	}
}

func serveProbes(n *Network) *prober {
	p := &prober{n: n, now: failpoint.Now}
	p.mu.used = make(map[string]int)
	n.Handle(ProtocolProbe, func(from slot.PeerID, s wire.Stream) {
		if err := p.answer(peer.ID(from), s); err != nil {
			n.env.Log.Debug("probe failed", "peer", from, "err", err)
			_ = s.Reset()
		}
	})
	return p
}

// allow is how many of so many bytes the peers at an address are allowed now.
func (p *prober) allow(site string, want int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.mu.began) >= probeWindow {
		p.mu.began, p.mu.all = now, 0
		clear(p.mu.used)
	}
	if _, known := p.mu.used[site]; !known && len(p.mu.used) >= maxProbers {
		return 0
	}
	got := max(0, min(want, MaxProbe, probeSite-p.mu.used[site], probeAll-p.mu.all))
	if got > 0 {
		p.mu.used[site] += got
		p.mu.all += got
	}
	return got
}

func (p *prober) answer(from peer.ID, s wire.Stream) error {
	if err := s.SetDeadline(time.Now().Add(probeTimeout)); err != nil {
		return err
	}
	ask, err := wire.ReadMessage(s, maxProbeTalk)
	if err != nil {
		return err
	}
	r := wire.NewReader(ask)
	give, take := int(r.U32()), int(r.U32())
	if err := r.Done(); err != nil {
		return err
	}
	seen := p.n.remoteAddr(from)
	site := peers.Subscriber(seen)
	give, take = p.allow(site, give), p.allow(site, take)
	b := wire.AppendU32(wire.AppendU32(nil, uint32(give)), uint32(take))
	if err := wire.WriteMessage(s, wire.AppendBytes(b, seen.String())); err != nil {
		return err
	}
	for range probeTrips {
		if _, err := io.ReadFull(s, make([]byte, 1)); err != nil {
			return err
		}
		if _, err := s.Write(wire.AppendU64(nil, uint64(p.now().UnixNano()))); err != nil {
			return err
		}
	}
	rate, err := drain(s, give)
	if err != nil {
		return err
	}
	if _, err := s.Write(wire.AppendU64(nil, uint64(rate))); err != nil {
		return err
	}
	return pour(s, take)
}

// remoteAddr is where a peer that is connected comes from, by the way that new streams take; empty
// if it is not connected.
func (n *Network) remoteAddr(id peer.ID) multiaddr.Multiaddr {
	if c, ok := n.env.BestConn(id); ok {
		return c.RemoteMultiaddr()
	}
	return nil
}

// Probe asks a peer for some round trips and its clock, and sends and takes up to so many bytes
// each way; it may allow fewer, or none. It connects first where that is needed.
func (n *Network) Probe(ctx context.Context, to slot.PeerID, size int) (r Probe, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	open := n.OpenBulk
	if size == 0 {
		open = n.Open // a time of day is not worth a connection of its own
	}
	s, err := open(network.WithAllowLimitedConn(ctx, "probe"), to, ProtocolProbe)
	if err != nil {
		return r, err
	}
	defer func() { wire.End(s, err) }()
	defer context.AfterFunc(ctx, func() { _ = s.Reset() })()
	if r, err = probe(s, min(size, MaxProbe)); err != nil {
		return r, n.env.Tasks.Err(fmt.Errorf("probe of %s: %w", to.Short(), errors.Join(err, ctx.Err())))
	}
	r.Addr = n.remoteAddr(peer.ID(to)).String()
	return r, nil
}

// probe is the asker's side.
func probe(s wire.Stream, size int) (r Probe, err error) {
	if err := wire.WriteMessage(s, wire.AppendU32(wire.AppendU32(nil, uint32(size)), uint32(size))); err != nil {
		return r, err
	}
	b, err := wire.ReadMessage(s, maxProbeTalk)
	if err != nil {
		return r, err
	}
	answer := wire.NewReader(b)
	give, take := int(answer.U32()), int(answer.U32())
	r.Observed = oneLine(string(answer.Bytes(maxProbeTalk)), maxProbeTalk)
	if give > size || take > size {
		answer.Fail("%d and %d bytes where %d were asked for", give, take, size)
	}
	if err := answer.Done(); err != nil {
		return r, err
	}
	if err := r.trips(s); err != nil {
		return r, err
	}
	if err := pour(s, give); err != nil {
		return r, err
	}
	rate, err := readU64(s)
	if err != nil {
		return r, err
	}
	if give > 0 {
		r.Up = float64(rate)
	}
	r.Down, err = drain(s, take)
	return r, err
}

// trips takes the clock of the shortest round trip for the most exact.
func (r *Probe) trips(s wire.Stream) error {
	for i := range probeTrips {
		sent, day := time.Now(), failpoint.Now()
		if _, err := s.Write([]byte{0}); err != nil {
			return err
		}
		theirs, err := readU64(s)
		if err != nil {
			return err
		}
		if took := time.Since(sent); i == 0 || took < r.RTT {
			r.RTT, r.Offset = took, time.Unix(0, int64(theirs)).Sub(day.Round(0))-took/2
		}
	}
	return nil
}

func readU64(s io.Reader) (v uint64, err error) {
	err = binary.Read(s, binary.BigEndian, &v)
	return v, err
}

// zeros is what is sent to measure how fast it comes.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// pour writes n bytes.
func pour(w io.Writer, n int) error {
	_, err := io.CopyN(w, zeros{}, int64(n))
	return err
}

// drain reads n bytes and says how fast they came, in bytes a second: the least rate of those after
// a moment in the second quarter, because a connection finds its rate in the first, and because
// after a moment at which this process did not run, bytes that came meanwhile are read at once. So
// the rate is at most twice that of all bytes, too.
func drain(r io.Reader, n int) (rate float64, err error) {
	type moment struct {
		at  time.Time
		got int
	}
	moments := []moment{{time.Now(), 0}}
	for b, got := make([]byte, min(n, probeChunk)), 0; got < n; {
		k, err := r.Read(b[:min(len(b), n-got)])
		if got += k; got >= n/4 && got <= n/2 {
			moments = append(moments, moment{time.Now(), got})
		}
		if err != nil && got < n {
			return 0, err
		}
	}
	for i, m := range moments {
		later := float64(n-m.got) / max(time.Since(m.at), time.Nanosecond).Seconds()
		if i == 0 {
			later *= 2
		}
		if rate == 0 || later < rate {
			rate = later
		}
	}
	return rate, nil
}

const (
	mappedWait = 5 * time.Second // for the peers asked to answer
	mappedPoll = 100 * time.Millisecond
)

// Mapped is how peers at those of some addresses that are QUIC's see one UDP socket of this
// machine, as multiaddrs: behind NAT they are equal where holes can be punched. It takes a network
// and an identity of its own, which end with it, and returns what it has learned when 5 s or ctx
// are over.
func Mapped(ctx context.Context, addrs []string) (seen []string, err error) {
	cfg := LAN()
	addrs = slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return !strings.Contains(a, "/quic-v1") })
	if cfg.Bootstrap = addrs; len(addrs) == 0 {
		return nil, nil
	}
	n, err := New(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer n.Close() //nolint:errcheck // nothing of it is kept
	ctx, cancel := context.WithTimeout(ctx, mappedWait)
	defer cancel()
	given := make(map[string]bool)
	for _, a := range addrs {
		given[a[strings.LastIndexByte(a, '/')+1:]] = true
	}
	for asked := n.Peers()[:0]; ctx.Err() == nil && len(asked) < len(given); {
		for _, p := range n.Peers() {
			if slices.Contains(asked, p) {
				continue
			}
			asked = append(asked, p)
			if r, err := n.Probe(ctx, p, 0); err == nil && r.Observed != "" {
				seen = append(seen, r.Observed)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(mappedPoll):
		}
	}
	return seen, nil
}
