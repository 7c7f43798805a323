package membership

import (
	"fmt"

	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// pastSize watches how much a newcomer has to take of the old records. Links stay for ever, each
// with the signatures of a quorum, so in a large run whose members come and go the past outgrows
// what anybody takes. The run goes on then, but nobody comes in any more.
type pastSize struct {
	*facts
	*effects
	height uint64 // of the summary whose past was measured
	bytes  int    // that a newcomer unpacks
	takes  int    // of what it takes at most: bytes, or entries of the links' lists
	told   bool   // that newcomers will be refused soon; it is told again when they are
	refuse bool   // and that they are
}

// measure looks at a past that is new.
func (ps *pastSize) measure() {
	p := ps.chain.Past()
	if p == nil {
		ps.height, ps.bytes, ps.takes = 0, 0, 0
		return
	}
	if p.Height == ps.height || ps.chain.Height() <= p.Height {
		return
	}
	named := ps.chain.Above(p.Floor)[:p.Height+1-p.Floor] // up to the record that names the summary
	ps.height, ps.bytes = p.Height, wire.PastSize(*p, named)
	entries, newest := ps.chain.PastEntries()
	ps.takes = max(ps.bytes, entries)
	ps.judge(wire.MaxPast, max(meanLink(p.Links), newest))
}

// recentLinks are as many links as tell how long the next ones are: a link that only takes a seat
// is shorter than one with which many come.
const recentLinks = 64

// meanLink is how many bytes a past grows by with a link, by the newest ones.
func meanLink(links [][]byte) int {
	newest := links[max(0, len(links)-recentLinks):]
	bytes := 0
	for _, l := range newest {
		bytes += 4 + len(l)
	}
	return bytes / max(len(newest), 1)
}

// judge tells when the past comes near the most that a newcomer takes, and when it has more. link
// is what a change of who votes adds.
func (ps *pastSize) judge(most, link int) {
	refuse := ps.takes > most
	soon := ps.takes > most/4*3
	if soon && !ps.told || refuse && !ps.refuse {
		ps.event(Event{
			Kind: EventLarge, Height: ps.height, Slot: ps.chain.Tip().Slot,
			Detail: largePast(ps.takes, most, link),
		})
	}
	ps.told, ps.refuse = soon, refuse
}

func largePast(bytes, most, link int) string {
	says := fmt.Sprintf("what a newcomer has to take of this run's old records is %d MB, of %d MB that it takes at "+
		"most: ", bytes/1e6, most/1e6)
	if bytes > most {
		says += "no new peer can join, and none that was away for long can come back, "
	} else {
		says += fmt.Sprintf("after about %d more changes of who votes no new peer can join, and none that was away "+
			"for long can come back, ", (most-bytes)/max(link, 1))
	}
	return says + "but from a peer that has kept all records from the beginning (--keep-records). To let " +
		"others in, begin a new run from the model: p2pdiloco export, then join --run NEW --init FILE"
}
