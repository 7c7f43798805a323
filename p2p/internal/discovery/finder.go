package discovery

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

const (
	// between the first searches; doubles up to Config.FindEvery
	findFirst   = 250 * time.Millisecond
	findCalm    = 30 * time.Second // while all found are connected; seldom makes it longer
	findTimeout = 20 * time.Second
)

// seldom is the time between two look-ups of a peer that has this many neighbours and misses none.
// Each look-up asks them all, and each tells of all: what a peer answers grows with the square of
// their number, until a bucket is full.
func seldom(neighbours int) time.Duration {
	n := time.Duration(min(neighbours+1, smallSwarm))
	return max(findCalm, findCalm*n*n/16)
}

// finder is the loop behind one Find: it has searches made, hands what they find to the dialer, and
// reports who is connected. All its state belongs to the goroutine of serve.
type finder struct {
	env    Env
	cfg    Config
	places *Places
	out    chan slot.PeerID

	changes  chan change      // of connections, and peers found that are connected
	searched chan int         // a search of the DHT ended; see search
	asks     chan chan<- bool // see hasLooked

	reported map[peer.ID]bool // since they connected
	pending  []peer.ID        // to be reported, each at most once
	nodes    int              // connections of bootstrap nodes so far
	answered bool             // a search since the last of them had somebody to ask
}

type change struct {
	id        peer.ID
	connected bool
}

func newFinder(env Env, cfg Config, places *Places) *finder {
	return &finder{
		env: env, cfg: cfg, places: places, out: make(chan slot.PeerID, 64), changes: make(chan change, 256),
		searched: make(chan int, 1), asks: make(chan chan<- bool), reported: make(map[peer.ID]bool),
	}
}

func (f *finder) serve(ctx context.Context) {
	defer f.env.Dialer.SearchEnded()
	defer f.env.OnConnection(func(id peer.ID, connected bool) { f.tell(ctx, change{id, connected}) })()
	f.env.Tasks.Go(func() {
		for _, p := range f.env.Book.Known() {
			f.offer(ctx, p)
		}
	})
	f.loop(ctx)
}

func (f *finder) loop(ctx context.Context) {
	wait, searching := findFirst, false
	timer := time.NewTimer(0)
	defer timer.Stop()
	soon := func(after, next time.Duration) {
		if wait = next; !searching {
			timer.Reset(after)
		}
	}
	names, changed := f.places.now()
	local := localSearch{f, f.startMDNS}
	stop := local.begin(ctx, names)
	defer func() { stop() }()
	for {
		out, first := f.nextReport()
		select {
		case <-ctx.Done():
			return
		case out <- first:
			f.pending = f.pending[1:]
		case c := <-f.changes:
			f.connection(c)
			switch {
			case c.connected && f.env.Dialer.IsNode(c.id): // it may know more
				f.nodes++
				f.answered = false
				soon(0, findFirst)
			case !c.connected && wait > f.cfg.FindEvery && !f.calm():
				soon(f.cfg.FindEvery, f.cfg.FindEvery)
			}
		case <-timer.C:
			now, nodes := names, f.nodes
			if searching = f.env.Tasks.Go(func() { f.search(ctx, now, nodes) }); !searching {
				return
			}
		case nodes := <-f.searched:
			searching = false
			f.answered = f.answered || nodes == f.nodes
			timer.Reset(wait)
			most := f.cfg.FindEvery
			if f.calm() {
				most = max(most, seldom(f.env.DHT.RoutingTable().Size()))
			}
			wait = min(2*wait, most)
		case reply := <-f.asks:
			reply <- f.looked()
		case <-changed:
			names, changed = f.places.now()
			stop()
			stop = local.begin(ctx, names)
			soon(0, findFirst)
		}
	}
}

func (f *finder) tell(ctx context.Context, c change) {
	select {
	case f.changes <- c:
	case <-ctx.Done():
	}
}

// offer has a peer dialled that was found by DHT, mDNS or memory.
func (f *finder) offer(ctx context.Context, p peer.AddrInfo) {
	if f.env.Dialer.Found(p) {
		f.tell(ctx, change{p.ID, true})
	}
}

// search asks the DHT once for every place. It sends how many bootstrap nodes had been connected
// when it began; -1 if there was nobody to ask.
func (f *finder) search(ctx context.Context, names []string, nodes int) {
	if len(f.env.Dialer.Nodes()) > 0 && f.env.DHT.RoutingTable().Size() == 0 {
		nodes = -1
	}
	defer func() { f.searched <- nodes }() // room for the one search that runs
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, name := range names {
		if key, err := runKey(name); err == nil {
			all.Go(func() {
				for p := range f.env.DHT.FindProvidersAsync(ctx, key, 0) {
					f.offer(ctx, p)
				}
			})
		}
	}
	all.Wait()
}

// calm says whether peers were found, and all of them are connected: who is new looks for them.
func (f *finder) calm() bool {
	all := f.env.Dialer.Searched()
	for id := range all {
		if !f.env.Connected(id) {
			return false
		}
	}
	return len(all) > 0
}

// hasLooked asks the loop whether this peer has looked around.
func (f *finder) hasLooked(ctx context.Context) bool {
	reply := make(chan bool, 1)
	select {
	case f.asks <- reply:
		return <-reply
	case <-ctx.Done():
		return false
	}
}

// looked says whether a search had somebody to ask, and ended, and each peer that was found has had
// its first chance: those that answered are reported.
func (f *finder) looked() bool {
	if !f.answered || len(f.changes) > 0 || len(f.pending) > 0 {
		return false
	}
	for id, tried := range f.env.Dialer.Searched() {
		if !tried || f.env.Connected(id) && !f.reported[id] {
			return false
		}
	}
	return true
}

// connection puts a peer that was found and is connected among those to be reported. The loop sends
// them when the caller takes them: a slow caller must not hold up the news of connections, which
// all of the host waits for.
func (f *finder) connection(c change) {
	if !c.connected {
		delete(f.reported, c.id)
		return
	}
	if _, found := f.env.Dialer.Searched()[c.id]; !found || f.reported[c.id] {
		return
	}
	f.reported[c.id] = true
	f.env.Book.Note(c.id)
	if !slices.Contains(f.pending, c.id) {
		f.pending = append(f.pending, c.id)
	}
}

// nextReport is the channel to send the first pending report on, nil when there is none.
func (f *finder) nextReport() (chan<- slot.PeerID, slot.PeerID) {
	if len(f.pending) == 0 {
		return nil, ""
	}
	return f.out, slot.PeerID(f.pending[0])
}
