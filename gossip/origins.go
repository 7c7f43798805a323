package gossip

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// origins keeps, for the authors heard last, the window against repetition and the buckets against
// floods.
type origins struct {
	cfg Config
	mu  struct {
		sync.Mutex
		byID   map[slot.PeerID]*list.Element // of *origin
		recent *list.List                    // the one heard last in front
		kept   map[slot.PeerID]struct{}      // not forgotten for others
		// by neighbour: what it may still pass on of authors that are not kept
		passed map[slot.PeerID]*bucket
	}
}

type origin struct {
	id       slot.PeerID
	lives    []life // the one heard last is at the end
	messages bucket
	bytes    bucket
}

func newOrigins(cfg Config) *origins {
	o := &origins{cfg: cfg}
	o.mu.byID = make(map[slot.PeerID]*list.Element)
	o.mu.recent = list.New()
	o.mu.passed = make(map[slot.PeerID]*bucket)
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
	og := o.get(from, now)
	w := og.life(o.cfg.epoch(a.body))
	if w.seen(a.boot, a.counter) {
		return false
	}
	if !og.messages.has(now, o.cfg.Rate, o.cfg.Burst, 1) ||
		!og.bytes.has(now, o.cfg.ByteRate, o.cfg.ByteBurst, float64(n)) {
		return false
	}
	og.messages.tokens--
	og.bytes.tokens -= float64(n)
	w.add(a.boot, a.counter)
	return true
}

// mayPass bounds what a neighbour passes on of authors that are not kept, once any are: names are
// made up in no time, so all of them together have the rate of one. o.mu is held.
func (o *origins) mayPass(via, from slot.PeerID, now time.Time) bool {
	if _, kept := o.mu.kept[from]; kept || len(o.mu.kept) == 0 {
		return true
	}
	b := o.mu.passed[via]
	if b == nil {
		if len(o.mu.passed) >= o.cfg.MaxOrigins {
			o.dropPassed(now)
		}
		b = &bucket{o.cfg.Burst, now}
		o.mu.passed[via] = b
	}
	if !b.has(now, o.cfg.Rate, o.cfg.Burst, 1) {
		return false
	}
	b.tokens--
	return true
}

// dropPassed forgets the neighbours where that makes no difference, or else all. o.mu is held.
func (o *origins) dropPassed(now time.Time) {
	for id, b := range o.mu.passed {
		if b.has(now, o.cfg.Rate, o.cfg.Burst, o.cfg.Burst) {
			delete(o.mu.passed, id)
		}
	}
	if len(o.mu.passed) >= o.cfg.MaxOrigins {
		clear(o.mu.passed)
	}
}

// get finds or makes the author's entry and makes it the newest. o.mu is held.
func (o *origins) get(id slot.PeerID, now time.Time) *origin {
	if e := o.mu.byID[id]; e != nil {
		o.mu.recent.MoveToFront(e)
		return e.Value.(*origin)
	}
	if o.mu.recent.Len() >= o.cfg.MaxOrigins {
		o.forgetOne()
	}
	og := &origin{id: id, messages: bucket{o.cfg.Burst, now}, bytes: bucket{o.cfg.ByteBurst, now}}
	o.mu.byID[id] = o.mu.recent.PushFront(og)
	return og
}

// forgetOne drops the author heard longest ago, of those that are not kept if there are any. o.mu
// is held.
func (o *origins) forgetOne() {
	for range len(o.mu.kept) {
		e := o.mu.recent.Back()
		if _, kept := o.mu.kept[e.Value.(*origin).id]; !kept {
			break
		}
		o.mu.recent.MoveToFront(e)
	}
	oldest := o.mu.recent.Back()
	delete(o.mu.byID, oldest.Value.(*origin).id)
	o.mu.recent.Remove(oldest)
}

func (o *origins) keep(authors []slot.PeerID) {
	kept := make(map[slot.PeerID]struct{}, len(authors))
	for _, id := range authors {
		kept[id] = struct{}{}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.kept = kept
}

func (o *origins) keeps(author slot.PeerID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, kept := o.mu.kept[author]
	return kept
}

// bucket is a token bucket.
type bucket struct {
	tokens float64
	at     time.Time // when tokens was right
}

// has refills the bucket and says whether it holds cost tokens.
func (b *bucket) has(now time.Time, rate, burst, cost float64) bool {
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(burst, b.tokens+d.Seconds()*rate)
		b.at = now
	}
	return b.tokens >= cost
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
func parse(b []byte, maxBody int) (announcement, error) {
	r := wire.NewReader(b)
	a := announcement{kind: r.U8(), boot: r.U64(), counter: r.U64(), body: r.Bytes(maxBody)}
	return a, r.Done()
}
