package chain

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// A chain need not hold its old records. In their place it keeps
//
//	links    heads and certificates of all records that changed who decides the next ones, each as
//	         the difference to the one before
//	summary  what the records up to a height amount to; the record above that names its hash
//	window   whole records below that height, as many as the rules look back (recent)
//
// A newcomer that gets these verifies the links one by one, each against the electors of the one
// before (BYZANTINE 10), then the certificate of the record that names the summary, and goes on
// from there. The summary names all links by one hash, and the window is linked to it by the hashes
// of its records.

// past is what a chain keeps in the place of its old records.
type past struct {
	wire.Past
	links   map[uint64]slot.Root // hashes of the links, by height
	forks   map[uint64]bool      // heights of those that are forks
	newest  slot.Record          // of the newest link: the next one is encoded after it
	entries int                  // of the lists that the links stand for
}

func newPast(run slot.Root, p wire.Past) *past {
	return &past{p, map[uint64]slot.Root{}, map[uint64]bool{}, slot.Genesis(run), 0}
}

// entriesOf is the number of entries of a record's lists.
func entriesOf(r slot.Record) int { return len(r.Members) + len(r.Absent) + len(r.Evicted) }

// PastEntries returns how many entries the lists have that the links of the past stand for, all
// together and those of the newest link: others refuse a past with more of them than wire.MaxPast.
func (c *Chain) PastEntries() (all, newest int) {
	if c.past == nil {
		return 0, 0
	}
	return c.past.entries, entriesOf(c.past.newest)
}

// after returns a past with the same links, to which others are added.
func (p *past) after(run slot.Root, next wire.Past) *past {
	if p == nil {
		return newPast(run, next)
	}
	next.Links = slices.Clip(p.Links)
	return &past{next, maps.Clone(p.links), maps.Clone(p.forks), p.newest, p.entries}
}

// add takes in the next link.
func (p *past) add(head slot.Head, hash slot.Root) {
	p.newest = head.Record
	p.entries += entriesOf(head.Record)
	p.links[head.Record.Height] = hash
	if head.Record.Kind == slot.Fork {
		p.forks[head.Record.Height] = true
	}
}

// readPast reads the links of a past, and has each judged before the next one is read.
func readPast(run slot.Root, p wire.Past, judge func(wire.Link) error) (*past, error) {
	read := newPast(run, p)
	for _, b := range p.Links {
		l, err := wire.ParseLink(b, read.newest)
		if err == nil {
			err = judge(l)
		}
		if err != nil {
			return nil, err
		}
		read.add(l.Head, l.Certificate.Hash)
	}
	return read, nil
}

// Lasting returns the hash of the newest link, or zero: a newcomer that is given it as its pin can
// check it however old it is by then.
func (pos *position) Lasting() slot.Root { return pos.linked.newest }

// Resume makes the chain that a store has kept. It verifies nothing.
func Resume(rules Rules, pin slot.Root, p *wire.Past, commits []wire.Commit) (*Chain, error) {
	c := New(rules, pin)
	if p != nil {
		window := int(p.Height - p.Floor)
		if p.Floor >= p.Height || window > len(commits) {
			return nil, Invalid("a summary at height %d over records above %d", p.Height, p.Floor)
		}
		own, err := readPast(rules.Run, *p, func(wire.Link) error { return nil })
		if err != nil {
			return nil, err
		}
		if c, err = begin(rules, pin, own, commits[:window], ownEntries); err != nil {
			return nil, err
		}
		commits = commits[window:]
	}
	for _, commit := range commits {
		c.Push(commit)
	}
	return c, nil
}

// ownEntries is no bound: a list is as long as the bytes are.
const ownEntries = math.MaxUint32

// begin makes the chain that a summary and its window are. No list of the summary has more entries.
func begin(rules Rules, pin slot.Root, p *past, window []wire.Commit, entries int) (*Chain, error) {
	s, err := parseSummary(rules, p.Summary, entries)
	if err != nil || s.height != p.Height {
		return nil, Invalid("a summary at height %d that is not one: %v", p.Height, err)
	}
	c := &Chain{
		records{
			genesis: slot.Genesis(rules.Run), pin: pin, past: p,
			commits: slices.Clip(slices.Clone(window)), hashes: []slot.Root{window[0].Record.Prev},
		},
		position{rules: rules, state: s, recent: newRecent(rules)},
	}
	for _, commit := range window {
		c.hashes = append(c.hashes, commit.Record.Hash())
		c.recent.follow(commit.Record)
	}
	c.tip, c.tipHash = c.Tip(), c.TipHash()
	c.pinned = c.holdsPin()
	return c, nil
}

// beginning returns the chain as it was at Start.
func (c *Chain) beginning() *Chain {
	if c.past == nil {
		return New(c.rules, c.pin)
	}
	b, err := begin(c.rules, c.pin, c.past, c.commits[:c.Start()-c.Floor()], ownEntries)
	if err != nil {
		panic(fmt.Sprintf("the chain's own summary: %v", err)) // this chain was made from it
	}
	return b
}

// GrownTo returns another chain that meets this one, with what this one keeps in the place of old
// records: both may have forgotten others.
func (c *Chain) GrownTo(o *Chain) *Chain {
	common := c.CommonHeight(o)
	b := c.UpTo(common)
	for h := common + 1; h <= o.Height(); h++ {
		b.pushHashed(o.Commit(h), o.Hash(h))
	}
	if o.pinned && !b.pinned { // its records are above the pin, or are those that have it
		b.pinned = true
		if b.past != nil {
			p := *b.past
			p.Pin, b.past = b.pin, &p
		}
	}
	return b
}

// Prune forgets the records that no rule asks for any more, of those that are older than the newest
// `keep` ones and than the record that this branch may be taken back to. It returns what the chain
// keeps in their place; of the links only those that are new.
func (c *Chain) Prune(keep uint64) (p wire.Past, pruned bool) {
	start, ok := c.newStart(keep)
	if _, full := c.recent.floor(); !ok || !full {
		return p, false
	}
	at := c.UpTo(start)
	floor, ok := at.recent.floor()
	if !ok || floor <= c.Floor() {
		return p, false
	}
	p = wire.Past{Floor: floor, Height: start, Summary: at.state.append(nil)}
	if !c.pin.IsZero() && at.pinned {
		p.Pin = c.pin
	}
	next := c.past.after(c.rules.Run, p)
	for h := c.Start() + 1; h <= start; h++ {
		if isLink(c.At(h), c.At(h-1).Electors()) {
			commit := c.Commit(h)
			link := wire.Link{Head: commit.Record.Head(), Certificate: commit.Certificate}
			p.Links = append(p.Links, link.Append(nil, next.newest))
			next.add(link.Head, c.Hash(h))
		}
	}
	next.Links = append(next.Links, p.Links...)
	drop := floor - c.Floor()
	c.commits, c.hashes = slices.Clone(c.commits[drop:]), slices.Clone(c.hashes[drop:])
	c.past = next
	return p, true
}

// newStart returns the height of the newest summary that is old enough to prune the records below.
func (c *Chain) newStart(keep uint64) (start uint64, ok bool) {
	every := c.rules.SummaryEvery
	most := c.Height() - min(c.Height(), max(keep, MaxSiblingAge))
	for _, f := range c.provisional {
		// where a quorum of many decides, no branch older than MaxSiblingAge is given up
		if !c.rules.byzantineAt(len(f.Electors)) {
			most = min(most, f.Height)
		}
	}
	if every == 0 || most < every {
		return 0, false
	}
	start = (most+1)/every*every - 1
	return start, start > c.Start()
}
