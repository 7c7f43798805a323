package gossip

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// bounds are how much the authors of announcements may say.
type bounds struct {
	rate      rate.Limit // announcements a second of one author
	burst     int
	byteRate  rate.Limit // and bytes
	byteBurst int
	authors   int // whose windows are kept
}

var usual = bounds{rate: 50, burst: 500, byteRate: 1 << 20, byteBurst: 8 << 20, authors: 4096}

// origins keeps, for the authors heard last, the window against repetition and the limiters against
// floods.
type origins struct {
	bounds bounds
	epoch  func(body []byte) uint64
	mu     struct {
		sync.Mutex
		authors *simplelru.LRU[slot.PeerID, *origin]
		kept    map[slot.PeerID]struct{} // not forgotten for others
		// by neighbour: what it may still pass on of authors that are not kept
		passed *simplelru.LRU[slot.PeerID, *rate.Limiter]
	}
}

type origin struct {
	lives    []life // the one heard last is at the end
	messages *rate.Limiter
	bytes    *rate.Limiter
}

func newOrigins(b bounds, epoch func(body []byte) uint64) *origins {
	o := &origins{bounds: b, epoch: epoch}
	// these fail for a size of 0
	o.mu.authors, _ = simplelru.NewLRU[slot.PeerID, *origin](b.authors, nil)
	o.mu.passed, _ = simplelru.NewLRU[slot.PeerID, *rate.Limiter](b.authors, nil)
	return o
}

// life is an author's window in one epoch: its boots are counted within it.
type life struct {
	epoch uint64
	window
}

// maxLives bounds what is kept of one author's epochs. A lost count of boots starts another one.
const maxLives = 4

func (og *origin) life(epoch uint64) *window {
	i := slices.IndexFunc(og.lives, func(l life) bool { return l.epoch == epoch })
	l := life{epoch: epoch}
	if i >= 0 {
		l = og.lives[i]
		og.lives = slices.Delete(og.lives, i, i+1)
	} else if len(og.lives) >= maxLives {
		og.lives = slices.Delete(og.lives, 0, 1)
	}
	og.lives = append(og.lives, l)
	return &og.lives[len(og.lives)-1].window
}

// admit says whether an announcement of n bytes, which a neighbour passed on, is new and its author
// within its rates, and takes note of it.
func (o *origins) admit(via, from slot.PeerID, a announcement, n int, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.mayPass(via, from, now) {
		return false
	}
	og := o.get(from)
	w := og.life(o.epoch(a.body))
	if w.seen(a.boot, a.counter) || og.messages.TokensAt(now) < 1 || !og.bytes.AllowN(now, n) {
		return false
	}
	og.messages.AllowN(now, 1)
	w.add(a.boot, a.counter)
	return true
}

// mayPass bounds what a neighbour passes on of authors that are not kept, once any are: names are
// made up in no time, so all of them together have the rate of one. o.mu is held.
func (o *origins) mayPass(via, from slot.PeerID, now time.Time) bool {
	if _, kept := o.mu.kept[from]; kept || len(o.mu.kept) == 0 {
		return true
	}
	passed, known := o.mu.passed.Get(via)
	if !known {
		passed = rate.NewLimiter(o.bounds.rate, o.bounds.burst)
		o.mu.passed.Add(via, passed)
	}
	return passed.AllowN(now, 1)
}

// get finds or makes the author's entry and makes it the newest. The author heard longest ago is
// dropped for a new one, of those that are not kept if there are any. o.mu is held.
func (o *origins) get(id slot.PeerID) *origin {
	if og, known := o.mu.authors.Get(id); known {
		return og
	}
	for range len(o.mu.kept) {
		oldest, _, _ := o.mu.authors.GetOldest()
		if _, kept := o.mu.kept[oldest]; !kept {
			break
		}
		o.mu.authors.Get(oldest) // which makes it the newest
	}
	og := &origin{
		messages: rate.NewLimiter(o.bounds.rate, o.bounds.burst),
		bytes:    rate.NewLimiter(o.bounds.byteRate, o.bounds.byteBurst),
	}
	o.mu.authors.Add(id, og)
	return og
}

func (o *origins) protect(authors []slot.PeerID) {
	kept := make(map[slot.PeerID]struct{}, len(authors))
	for _, id := range authors {
		kept[id] = struct{}{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.kept = kept
}

func (o *origins) isProtected(author slot.PeerID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, kept := o.mu.kept[author]
	return kept
}

// windowSize is how far an announcement may come behind a later one of the same author.
const windowSize = 1024

// window remembers which counters of the newest boot were seen: the highest one, and a bit for each
// of the windowSize up to it.
type window struct {
	started bool
	boot    uint64
	high    uint64
	bits    [windowSize / 64]uint64 // counter c has bit c mod windowSize
}

// seen says whether (boot, counter) was added before, or is too old to tell.
func (w *window) seen(boot, counter uint64) bool {
	switch {
	case !w.started || boot > w.boot:
		return false
	case boot < w.boot:
		return true
	case counter > w.high:
		return false
	case w.high-counter >= windowSize:
		return true
	}
	return w.bits[counter%windowSize/64]>>(counter%64)&1 == 1
}

// add notes (boot, counter), which was not seen.
func (w *window) add(boot, counter uint64) {
	if !w.started || boot > w.boot {
		*w = window{started: true, boot: boot, high: counter}
	}
	if counter > w.high {
		w.advance(counter)
	}
	w.bits[counter%windowSize/64] |= 1 << (counter % 64)
}

// advance moves the window up to counter and forgets what falls out of it.
func (w *window) advance(counter uint64) {
	if counter-w.high >= windowSize {
		clear(w.bits[:])
	} else {
		for c := w.high + 1; c != counter+1; c++ {
			w.bits[c%windowSize/64] &^= 1 << (c % 64)
		}
	}
	w.high = counter
}

// announcement is the content of a gossipsub message: kind u8, boot u64, counter u64, body (32-bit
// length in front).
type announcement struct {
	kind    uint8
	boot    uint64 // of the author, rises with each of its starts
	counter uint64 // rises with each announcement of one boot
	body    []byte
}

// overhead is the encoding's size without the body.
const overhead = 1 + 8 + 8 + 4

func (a announcement) append(b []byte) []byte {
	b = wire.AppendU8(b, a.kind)
	b = wire.AppendU64(b, a.boot)
	b = wire.AppendU64(b, a.counter)
	return wire.AppendBytes(b, a.body)
}

// parse reads what append wrote. The body is not copied.
func parse(b []byte) (announcement, error) {
	r := wire.NewReader(b)
	a := announcement{kind: r.U8(), boot: r.U64(), counter: r.U64(), body: r.Bytes(MaxBody)}
	return a, r.Done()
}
