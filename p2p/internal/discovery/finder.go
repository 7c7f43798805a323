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

// newFinder makes a finder, and the channel on which it reports.
func newFinder(env Env, cfg Config, book *addressBook, isNode func(peer.ID) bool, places *Places) (*finder,
	chan slot.PeerID,
) {
	out := make(chan slot.PeerID, 64)
	return &finder{
		env: env, cfg: cfg, book: book, isNode: isNode, places: places, out: out,
		found:      make(chan peer.AddrInfo, 64),
		changes:    make(chan change, 256),
		dialled:    make(chan dialResult, maxDials),
		searched:   make(chan int, 1),
		asks:       make(chan chan<- bool),
		candidates: make(map[peer.ID]*candidate),
	}, out
}

// finder is the loop behind one Find. All its state belongs to the goroutine of serve.
type finder struct {
	env    Env
	cfg    Config
	book   *addressBook
	isNode func(peer.ID) bool // says whether a peer is a bootstrap node
	places *Places
	out    chan<- slot.PeerID

	found    chan peer.AddrInfo // by DHT, mDNS or memory
	changes  chan change        // of connections
	dialled  chan dialResult
	searched chan int         // a search of the DHT ended; see search
	asks     chan chan<- bool // see hasLooked

	candidates map[peer.ID]*candidate
	nodes      int       // connections of bootstrap nodes so far
	answered   bool      // a search since the last of them had somebody to ask
	dials      int       // under way
	pending    []peer.ID // to be reported, each at most once
}

type change struct {
	id        peer.ID
	connected bool
}

type dialResult struct {
	id  peer.ID
	err error
}

func (f *finder) serve(ctx context.Context) {
	defer f.env.OnConnection(func(id peer.ID, connected bool) {
		select {
		case f.changes <- change{id, connected}:
		case <-ctx.Done():
		}
	})()
	local := localSearch{f: f, start: f.startMDNS, stops: make(map[string]func())}
	defer local.at(ctx, nil)
	for _, p := range f.book.known() {
		f.consider(ctx, p)
	}
	f.loop(ctx, local)
	for f.dials > 0 { // they end with ctx
		<-f.dialled
		f.dials--
	}
}

func (f *finder) loop(ctx context.Context, local localSearch) {
	wait, searching := findFirst, false
	timer := time.NewTimer(0)
	defer timer.Stop()
	names, changed := f.places.now()
	local.at(ctx, names)
	for {
		out, first := f.nextReport()
		select {
		case <-ctx.Done():
			return
		case out <- first:
			f.pending = f.pending[1:]
		case p := <-f.found:
			f.consider(ctx, p)
		case c := <-f.changes:
			f.connection(c)
			if !c.connected && wait > f.cfg.FindEvery && !f.calm() {
				if wait = f.cfg.FindEvery; !searching {
					timer.Reset(wait)
				}
			}
			// it may know more than those that were asked so far
			if c.connected && f.isNode(c.id) {
				f.nodes++
				f.answered = false
				if wait = findFirst; !searching {
					timer.Reset(0)
				}
			}
		case r := <-f.dialled:
			f.dialEnded(r)
			f.dialMore(ctx)
		case <-timer.C:
			f.redial(ctx)
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
			local.at(ctx, names)
			if wait = findFirst; !searching {
				timer.Reset(0)
			}
		}
	}
}

// offer hands a peer to the loop.
func (f *finder) offer(ctx context.Context, p peer.AddrInfo) {
	select {
	case f.found <- p:
	case <-ctx.Done():
	}
}

// search asks the DHT once for every place. It sends how many bootstrap nodes had been connected
// when it began; -1 if there was nobody to ask.
func (f *finder) search(ctx context.Context, names []string, nodes int) {
	if len(f.cfg.Bootstrap) > 0 && f.env.DHT.RoutingTable().Size() == 0 {
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
	for _, c := range f.candidates {
		if !f.connected(c) {
			return false
		}
	}
	return len(f.candidates) > 0
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
	if !f.answered || len(f.found) > 0 || len(f.pending) > 0 {
		return false
	}
	for _, c := range f.candidates {
		if c.failures == 0 && !c.met && !f.connected(c) {
			return false
		}
	}
	return true
}

// report puts a candidate among those to be reported. The loop sends them when the caller takes
// them: a slow caller must not hold up the news of connections, which all of the host waits for.
func (f *finder) report(c *candidate) {
	if c.reported {
		return
	}
	c.reported = true
	f.book.note(c.info.ID)
	if !slices.Contains(f.pending, c.info.ID) {
		f.pending = append(f.pending, c.info.ID)
	}
}

// nextReport is the channel to send the first pending report on, nil when there is none.
func (f *finder) nextReport() (chan<- slot.PeerID, slot.PeerID) {
	if len(f.pending) == 0 {
		return nil, ""
	}
	return f.out, slot.PeerID(f.pending[0])
}

func (f *finder) connection(ch change) {
	c := f.candidates[ch.id]
	if c == nil {
		return
	}
	now := time.Now()
	if !ch.connected {
		c.reported = false
		f.parted(c, now)
		return // the next round dials it again
	}
	c.failures, c.met, c.came = 0, true, now
	f.report(c)
}
