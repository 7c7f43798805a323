package membership

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// churnWorld is a large run of machines in virtual time: one queue of events, a network of random
// delays, no disk, signatures that are not checked, and workers that only let the time pass that
// their work takes. Peers live for exponentially distributed times; each that dies is replaced by a
// newcomer.
//
// ALIVE would be N messages to N machines every few seconds. The newest of each peer lies on a
// board instead, and everybody looks at the board as often as ALIVE is said: the machines end up
// with what gossip would have told them.
type churnWorld struct {
	cfg    churnConfig
	rand   *rand.Rand
	now    time.Duration
	seq    int
	queue  labQueue
	peers  []*churnPeer // the living, sorted
	made   int
	deaths []time.Duration

	rules  chain.Rules
	after  map[slot.Root]slot.Root // state root after a record, by its hash
	reduce churnReduce
	result churnResult
}

// churnConfig is what is varied.
type churnConfig struct {
	peers int
	slots int
	limit time.Duration // of virtual time
	life  time.Duration // mean; 0: for ever
	// how likely the inner steps of a peer take longer, up to three times as long
	late      float64
	byzantine bool
	reduce    time.Duration // an undisturbed reduction
	train     time.Duration // inner steps of one round
	coarse    time.Duration // between ticks, and half the time between looks at the board
}

// churnTiming is the wan preset.
var churnTiming = Timing{
	Alive: 5 * time.Second, Beat: 5 * time.Second, Patience: 15 * time.Second, Lost: 30 * time.Second,
	MinGrace: 30 * time.Second, GraceFactor: 3, Straggler: 10 * time.Minute,
	FoundAfter: 10 * time.Second, Linger: 2 * time.Minute, Retry: 5 * time.Second,
}

// churnReduce is the reduction that runs: all peers that take part end it at one time.
type churnReduce struct {
	group slot.Root
	plans map[string]time.Duration // when the reduction by a plan ends
	ends  time.Duration
	peers int
}

// churnResult is what came out.
type churnResult struct {
	slots, firstTerm int
	offered, counted int
	revisions        int
	resigned         int
	ended            time.Duration // of the last slot
	height           uint64
}

func newChurnWorld(cfg churnConfig) *churnWorld {
	w := &churnWorld{
		cfg: cfg, rand: rand.New(rand.NewPCG(uint64(cfg.peers), 7)), after: map[slot.Root]slot.Root{},
		rules: chain.Rules{
			Run: slot.Hash([]byte("churn")), MinPeers: 1, Fragments: []uint64{1 << 20}, Byzantine: cfg.byzantine,
			StartPeers: 1, NewcomerShare: 500,
		},
	}
	w.reduce.plans = map[string]time.Duration{}
	for range cfg.peers {
		w.peers = append(w.peers, w.newPeer())
	}
	slices.SortFunc(w.peers, func(a, b *churnPeer) int { return cmpPeer(a.id, b.id) })
	founding := w.founding()
	for _, p := range w.peers {
		p.start([]wire.Commit{founding}, true)
	}
	return w
}

// founding lists everybody: the run has grown before the experiment starts.
func (w *churnWorld) founding() wire.Commit {
	genesis := slot.Genesis(w.rules.Run).Hash()
	r := slot.Record{
		Run: w.rules.Run, Height: 1, Kind: slot.Fork, Prev: genesis,
		StateRoot: slot.Hash([]byte("initial")),
	}
	for _, p := range w.peers {
		m := slot.Member{Peer: p.id, Incarnation: p.inc, Since: 1, Seat: 1, Credit: w.credit()}
		r.Members = append(r.Members, m)
	}
	w.after[genesis], w.after[r.Hash()] = r.StateRoot, r.StateRoot
	return wire.Commit{Record: r, Certificate: slot.Certificate{Vote: slot.Vote{
		Ref:  slot.Ref{Height: 1, Prev: genesis},
		Hash: r.Hash(),
	}}}
}

// credit is what the first members have.
func (w *churnWorld) credit() uint16 {
	if w.cfg.byzantine {
		return 256
	}
	return 0
}

func (w *churnWorld) at(after time.Duration, do func()) {
	w.seq++
	heap.Push(&w.queue, labEvent{w.now + max(after, 0), w.seq, do})
}

// between is a random duration.
func (w *churnWorld) between(least, most time.Duration) time.Duration {
	return least + time.Duration(w.rand.Int64N(int64(most-least)))
}

// run lets time pass until so many slots are committed, or the limit is over.
func (w *churnWorld) run() churnResult {
	for w.result.slots < w.cfg.slots && w.now < w.cfg.limit && len(w.queue) > 0 {
		e := heap.Pop(&w.queue).(labEvent)
		w.now = e.at
		e.do()
	}
	return w.result
}

// die ends a peer's life. Those of its group notice soon: a connection that is reset, or one that
// brings nothing.
func (w *churnWorld) die(p *churnPeer) {
	p.dead = true
	w.deaths = append(w.deaths, w.now)
	w.peers = slices.DeleteFunc(w.peers, func(q *churnPeer) bool { return p == q })
	for _, q := range w.peers {
		w.at(w.between(time.Second, 3*time.Second), func() { q.accuse(p.id) })
	}
	w.at(w.between(5*time.Second, 30*time.Second), w.arrive)
}

// arrive brings a newcomer, which has got the chain from somebody.
func (w *churnWorld) arrive() {
	donor := w.peers[w.rand.IntN(len(w.peers))]
	p := w.newPeer()
	i, _ := slices.BinarySearchFunc(w.peers, p, func(a, b *churnPeer) int { return cmpPeer(a.id, b.id) })
	w.peers = slices.Insert(w.peers, i, p)
	p.start(slices.Clone(donor.m.chain.Commits()), false)
}

// endOf is when the reduction by a plan ends. The first plan of a slot takes the whole time. A
// revision costs the share of the lost peers, which others take over.
func (w *churnWorld) endOf(p slot.Plan) time.Duration {
	r := &w.reduce
	key, group := fmt.Sprint(p.Height, p.Ballot, p.Revision), p.Group()
	if end, known := r.plans[key]; known {
		return end
	}
	living := p.Living()
	switch {
	case group != r.group:
		clear(r.plans)
		r.group, r.ends = group, w.now+w.cfg.reduce
	case living == r.peers: // another leader's word for the same
	default:
		w.result.revisions++
		r.ends = max(r.ends, w.now) + w.cfg.reduce*time.Duration(r.peers-living)/time.Duration(r.peers)
	}
	r.peers, r.plans[key] = max(living, 1), r.ends
	return r.ends
}

func (w *churnWorld) find(id slot.PeerID) *churnPeer {
	i, ok := slices.BinarySearchFunc(w.peers, id, func(p *churnPeer, id slot.PeerID) int { return cmpPeer(p.id, id) })
	if !ok {
		return nil
	}
	return w.peers[i]
}

// committed counts a slot, once.
func (w *churnWorld) committed(e Event) {
	if e.Height <= w.result.height {
		return
	}
	w.result.height, w.result.ended = e.Height, w.now
	w.result.slots++
	w.result.counted += len(e.Contributors)
	if (slot.Ref{Ballot: e.Ballot}).Term() == 0 {
		w.result.firstTerm++
	}
}
