package chain

import (
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// Open verifies what another peer keeps in the place of old records, with the whole records that
// follow the floor, up to the one that names the summary. It returns the chain that they are.
func Open(rules Rules, pin slot.Root, p wire.Past, commits []wire.Commit, verify slot.Verifier) (*Chain, error) {
	return openWithin(rules, pin, p, commits, verify, maxPastEntries)
}

// openWithin is Open with another bound than maxPastEntries.
func openWithin(
	rules Rules, pin slot.Root, p wire.Past, commits []wire.Commit, verify slot.Verifier, most int,
) (*Chain, error) {
	if p.Floor >= p.Height || p.Height >= maxHeight || uint64(len(commits)) != p.Height+1-p.Floor ||
		rules.SummaryEvery == 0 {
		return nil, Invalid("a summary at height %d with %d records above height %d", p.Height, len(commits), p.Floor)
	}
	own, links, err := verifyLinks(rules, p, verify, most)
	if err != nil {
		return nil, err
	}
	last := len(commits) - 1
	for i := range last {
		if commits[i].Record.Height != p.Floor+uint64(i)+1 || commits[i].Record.Hash() != commits[i+1].Record.Prev {
			return nil, Invalid("records below a summary that do not follow each other")
		}
	}
	c, err := begin(rules, pin, own, commits[:last], maxEntries)
	if err != nil {
		return nil, err
	}
	if _, full := c.recent.floor(); !full {
		return nil, Invalid("a summary at height %d with too few records", p.Height)
	}
	if err := (statedPast{c, links}).check(); err != nil {
		return nil, err
	}
	if commits[last].Record.Summary.IsZero() {
		return nil, Invalid("record %d names no summary", p.Height+1)
	}
	return c, c.Extend(commits[last], verify)
}
