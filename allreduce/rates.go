package allreduce

import (
	"maps"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// A rate is bytes over the time in which a write was under way: what a peer's link takes while
// something is to be sent. Where little is sent, that is what the buffers below take, and says
// nothing; so a sample needs this much.
const (
	sampleBytes = 4 << 20
	sampleTime  = 20 * time.Millisecond
)

// maxRated bounds how many peers a meter remembers: those of two groups.
const maxRated = 2 * slot.MaxMembers

// meter measures how fast this peer sends, to each other one and to all together.
type meter struct {
	now func() time.Time
	mu  struct {
		sync.Mutex
		all     rate
		peers   map[slot.PeerID]*rate
		relayed map[slot.PeerID]bool // as Rates was told last
	}
}

func newMeter() *meter {
	m := &meter{now: time.Now}
	m.mu.peers = make(map[slot.PeerID]*rate)
	return m
}

// rate is what was sent since the last sample, and the samples' moving average.
type rate struct {
	writing int // writes under way
	since   time.Time
	busy    time.Duration
	bytes   uint64
	average float64 // bytes/s; 0: none yet
}

func (r *rate) begin(now time.Time) {
	if r.writing++; r.writing == 1 {
		r.since = now
	}
}

func (r *rate) end(now time.Time, bytes int) {
	if r.writing--; r.writing == 0 {
		r.busy += now.Sub(r.since)
	}
	r.bytes += uint64(bytes)
}

// sample makes what was sent count, half as much as all before, and starts anew.
func (r *rate) sample() {
	if r.bytes < sampleBytes || r.busy < sampleTime || r.writing > 0 {
		return
	}
	now := float64(r.bytes) / r.busy.Seconds()
	if r.average == 0 {
		r.average = now
	}
	r.average = (r.average + now) / 2
	r.bytes, r.busy = 0, 0
}

// forget drops all samples.
func (r *rate) forget(now time.Time) { *r = rate{writing: r.writing, since: now} }

// fastest is the speed above which links are equal here: no wire is measured any more, but memory
// and cores.
const fastest = 1 << 20 // kB/s

// kBps is the average in units of 1000 bytes a second; 0 where nothing is known.
func (r *rate) kBps() uint32 { return uint32(min(r.average/1000, fastest)) }

// counter returns what a link to a peer counts its writes with.
func (m *meter) counter(peer slot.PeerID) func() func(bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.mu.peers[peer]
	if r == nil {
		if len(m.mu.peers) >= maxRated {
			clear(m.mu.peers)
		}
		r = new(rate)
		m.mu.peers[peer] = r
	}
	return func() func(int) {
		m.mark(func(now time.Time) { r.begin(now); m.mu.all.begin(now) })
		return func(bytes int) { m.mark(func(now time.Time) { r.end(now, bytes); m.mu.all.end(now, bytes) }) }
	}
}

func (m *meter) mark(f func(now time.Time)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.now())
}

// reroute forgets what was measured on other ways than there are now: a relay's rate says nothing
// of a direct way, nor that of a relay's. mu is held.
func (m *meter) reroute(relayed map[slot.PeerID]bool) {
	for p, is := range relayed {
		if was, known := m.mu.relayed[p]; known && was != is && m.mu.peers[p] != nil {
			m.mu.peers[p].forget(m.now())
			m.mu.all.forget(m.now())
		}
	}
	m.mu.relayed = maps.Clone(relayed)
}

// Rates says how fast this peer could send in its reductions so far: to all together, and to each
// other peer, in kB/s (1000 bytes a second); 0, and no entry, where too little was sent to tell.
// relayed says to which of the peers connected now the way leads through a relay: a write there
// takes as long as the relay lets it, and so do the speeds.
func (e *Engine) Rates(relayed map[slot.PeerID]bool) (uplink uint32, to map[slot.PeerID]uint32) {
	m := e.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reroute(relayed)
	to = make(map[slot.PeerID]uint32)
	for p, r := range m.mu.peers {
		if r.sample(); r.average > 0 {
			to[p] = r.kBps()
		}
	}
	m.mu.all.sample()
	uplink = m.mu.all.kBps()
	// a slow receiver keeps writes waiting that are not the uplink's fault
	for _, speed := range to {
		uplink = max(uplink, speed)
	}
	return uplink, to
}
