package replica

import (
	"maps"
	"slices"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// Contribution is this peer's encoded pseudo-gradient of one fragment.
type Contribution struct {
	Base     uint64 // slot of the anchor that the inner steps started from
	Weight   uint64 // tokens or samples processed
	Fragment int
	Encoded  *allreduce.Contribution

	// what encoding lost of this pseudo-gradient; nil if the codec loses nothing
	residual []float32
}

// maxSpare is how many settled contributions are kept: the last one, whose buffer is the next one's
// unless it is still on its way over a slow link, and the one before, whose buffer is free then:
// its reduction has ended, since the next one began.
const maxSpare = 2

// contributions are those of this peer that no record has settled yet, and what it owes from those
// before.
type contributions struct {
	self         slot.PeerID
	params       allreduce.Params
	codec        codec.Codec // of contributions
	maxStaleness uint64
	feedback     *feedback // nil if the codec loses nothing

	mu struct {
		sync.Mutex
		open map[slot.Root]Contribution // offered, by root
		// settled, the oldest first: their buffers are for the next ones, once nobody holds them
		spare []*allreduce.Contribution
	}
}

func newContributions(self slot.PeerID, run Run) (*contributions, error) {
	used, err := codec.New(run.Params.Codec)
	if err != nil {
		return nil, err
	}
	c := &contributions{
		self: self, params: run.Params, codec: used, maxStaleness: run.MaxStaleness,
		feedback: newFeedback(run.Params.Fragments, used),
	}
	c.mu.open = make(map[slot.Root]Contribution)
	return c, nil
}

// encode puts a fragment's pseudo-gradient into the run's codec. gradient is not kept.
func (c *contributions) encode(base uint64, fragment int, gradient allreduce.Values) (Contribution, error) {
	own, buffer := Contribution{Base: base, Fragment: fragment}, c.buffer()
	if c.feedback != nil {
		own.residual = c.feedback.borrow(fragment)
		gradient = owing{gradient, c.feedback, fragment, own.residual}
	}
	var err error
	if own.Encoded, err = allreduce.Encode(c.params, uint32(fragment), c.self, gradient, buffer); err != nil {
		c.feedback.giveBack(own.residual)
	}
	return own, err
}

// buffer is that of a contribution that was settled and has been sent to all; nil if there is none.
// Others that are free as well were of use while links were slow, and go.
func (c *contributions) buffer() (b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.spare = slices.DeleteFunc(c.mu.spare, func(settled *allreduce.Contribution) bool {
		own, free := settled.Reclaim()
		if free && b == nil {
			b = own
		}
		return free
	})
	return b
}

// hold holds a contribution that is offered until settle lets it go.
func (c *contributions) hold(own Contribution) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.open[own.Encoded.Root()] = own
}

// find finds this peer's contribution among offers, which stays as it is until done is called. It
// is nil if there is none or it is not held any more.
func (c *contributions) find(offers []slot.Offer) (own *allreduce.Contribution, done func()) {
	for _, o := range offers {
		if o.Peer == c.self {
			return c.withRoot(o.Root)
		}
	}
	return nil, func() {}
}

// withRoot returns the contribution with a root, which stays as it is until done is called; nil if
// it is not held.
func (c *contributions) withRoot(root slot.Root) (own *allreduce.Contribution, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own = c.mu.open[root].Encoded; own == nil {
		return nil, func() {}
	}
	own.Hold()
	return own, own.Drop
}

// shown is withRoot for auditors, which also ask for what a record has settled: the record may have
// come here first, and whoever shows nothing seems to hide.
func (c *contributions) shown(root slot.Root) (own *allreduce.Contribution, done func()) {
	if own, done = c.withRoot(root); own != nil {
		return own, done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, own := range c.mu.spare {
		if own.Root() == root {
			own.Hold() // buffer leaves it as it is
			return own, own.Drop
		}
	}
	return nil, func() {}
}

// settle drops the contributions that a record lists, and those too stale for any later one. The
// ledger offers the others for the next slot. What encoding lost of a listed one is owed from now
// on. A contribution from before a restart may be listed that is not held any more.
func (c *contributions) settle(record slot.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := slices.IndexFunc(record.Contributions, func(o slot.Offer) bool { return o.Peer == c.self })
	if own >= 0 {
		if _, held := c.mu.open[record.Contributions[own].Root]; !held {
			c.feedback.paid(record, own)
		}
	}
	maps.DeleteFunc(c.mu.open, func(root slot.Root, made Contribution) bool {
		listed := own >= 0 && record.Contributions[own].Root == root
		stale := made.Base+c.maxStaleness < record.Slot
		if listed && made.residual != nil {
			c.feedback.owe(record, own, made.residual)
		}
		if listed || stale {
			c.feedback.giveBack(made.residual)
			c.mu.spare = append(c.mu.spare, made.Encoded)
			c.mu.spare = slices.Delete(c.mu.spare, 0, max(0, len(c.mu.spare)-maxSpare))
		}
		return listed || stale
	})
}

// feedback is error feedback (1-bit SGD, Seide et al. 2014; arXiv 1901.09847), which a run with a
// lossy codec uses: the peer owes what encoding lost of a pseudo-gradient D, and adds it to the
// next pseudo-gradient of the same fragment. The debt e, D elements, is private to the peer:
//
//	x = b e + D;  c = Q(x) is offered
//	when a record lists c:  e = b e + D - dec(c), in the segments that list this peer
//
// If nothing else was agreed in between, that is e = x - dec(c). The factor b is the codec's
// (codec.Feedback). Where it is 1, in every segment the sum of e and of what was decoded from this
// peer is at any time the sum of the D that it was listed with, so nothing is lost: it only comes
// later. With topk most of e is of many slots before, and fades (arXiv 2508.15706).
//
//   - In the other segments e stays. A segment that does not list this peer took nothing of c, so D
//     is lost to it as with any codec, and the debt from before remains. If D were owed too, a
//     later slot would reduce it at full weight however stale it is by then.
//   - The same holds for an offer that no record lists: it is forgotten.
//   - The debt must be known before the next contribution is encoded; otherwise it would be paid
//     twice. So the caller waits for the contribution under way before it encodes the next one. The
//     overlapped modes lose nothing by that, for its slot must be applied before the next offer.
//   - The debt is kept on disk with the newest checkpoint (debtFile). A process that starts
//     goes on with it from the state that it belongs to; one that is listed after that has paid it,
//     and its own residual went with the process that died, so then nothing is owed.
//   - Nothing is owed after a state was fetched because records were missed or a branch was given
//     up. That loses one slot's rounding.
//   - Outcomes are encoded without feedback, for owners change from slot to slot.
//
// A nil feedback is that of a codec that loses nothing.
type feedback struct {
	sizes  []uint64 // elements of the fragments
	factor float32  // b

	mu struct {
		sync.RWMutex
		all   []float32   // e, a fragment behind the other; nil until something is owed
		debt  [][]float32 // the fragments' parts of it; nil as well
		spare []float32   // one of the buffers that residuals come in
	}
}

func newFeedback(sizes []uint64, used codec.Codec) *feedback {
	if !used.Lossy() {
		return nil
	}
	f := &feedback{sizes: sizes, factor: used.Feedback}
	f.mu.debt = make([][]float32, len(f.sizes))
	return f
}

// owing are the values of a fragment's pseudo-gradient D together with what is owed.
type owing struct {
	allreduce.Values // D
	feedback         *feedback
	fragment         int
	residual         []float32 // D, then D - dec(c), which owe takes
}

// Fill sets x = b e + D. Where a record changes e meanwhile, some elements have the e before and
// some the one after. Both are right: what e becomes does not depend on what of it was in x.
func (o owing) Fill(begin uint64, x []float32) error {
	d := o.residual[begin:][:len(x)]
	if err := o.Values.Fill(begin, d); err != nil {
		return err
	}
	if at := kernel.Bounded(d); at >= 0 {
		return &allreduce.BadElement{Element: begin + uint64(at), Value: d[at]}
	}
	o.feedback.mu.RLock()
	defer o.feedback.mu.RUnlock()
	if e := o.feedback.mu.debt[o.fragment]; e != nil {
		o.feedback.add(x, e[begin:][:len(x)], d)
	} else {
		copy(x, d)
	}
	return nil
}

// add sets dst = b e + d. dst may be e.
func (f *feedback) add(dst, e, d []float32) {
	if f.factor == 1 {
		kernel.Add(dst, e, d)
		return
	}
	for j, v := range e {
		dst[j] = float32(f.factor*v) + d[j]
	}
}

// Decoded makes the residual.
func (o owing) Decoded(begin uint64, x []float32) {
	d := o.residual[begin:][:len(x)]
	kernel.Sub(d, d, x)
}

// owe adds a residual to the debt, once a record lists its contribution at an index.
func (f *feedback) owe(record slot.Record, index int, residual []float32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.all == nil {
		f.split(make([]float32, f.elements()))
	}
	e := f.mu.debt[record.Fragment]
	for _, s := range record.Segments {
		if s.Contributors.Has(index) {
			part := e[s.Range.Begin:s.Range.End]
			residual := residual[s.Range.Begin:s.Range.End]
			kernel.Ranges(len(part), func(begin, end int) {
				f.add(part[begin:end], part[begin:end], residual[begin:end])
			})
		}
	}
}

// paid drops what is owed where a record lists a contribution of this peer whose residual is not
// known any more: it was in that contribution.
func (f *feedback) paid(record slot.Record, index int) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.mu.debt[record.Fragment]
	if e == nil {
		return
	}
	for _, s := range record.Segments {
		if s.Contributors.Has(index) {
			clear(e[s.Range.Begin:s.Range.End])
		}
	}
}

// owed is the debt of all fragments. Only owe, paid, resume and forgive change it, and none of them
// may be called meanwhile.
func (f *feedback) owed() []float32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.all == nil {
		return make([]float32, f.elements())
	}
	return f.mu.all
}

// resume takes up a debt from before a restart.
func (f *feedback) resume(all []float32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.split(all)
}

// split has all be the debt. mu is held.
func (f *feedback) split(all []float32) {
	f.mu.all = all
	for i, n := range f.sizes {
		f.mu.debt[i], all = all[:n], all[n:]
	}
}

// elements is D.
func (f *feedback) elements() (d uint64) {
	for _, n := range f.sizes {
		d += n
	}
	return d
}

// forgive drops what is owed.
func (f *feedback) forgive() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.all = nil
	clear(f.mu.debt)
}

// borrow lends a buffer for a fragment's residual, with any values.
func (f *feedback) borrow(fragment int) []float32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.mu.spare
	f.mu.spare = nil
	if b == nil {
		b = make([]float32, slices.Max(f.sizes))
	}
	return b[:f.sizes[fragment]]
}

// giveBack ends the use of a residual.
func (f *feedback) giveBack(residual []float32) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.spare = residual
}
