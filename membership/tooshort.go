package membership

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// tooShort keeps the attempts at the open slot that this peer has seen end because fewer than
// min_peers were left of a group: some members are heard, and take no part in the reduction.
// Nobody may decide the slot without them, so it is tried again, ever more seldom. No leader can do
// better than another one, so none is deposed meanwhile; but for one that listed too few, by
// mistake or so that the slot does not end: its term goes on as always.
type tooShort struct {
	group slot.Root     // of the newest one
	held  slot.Root     // the newest one after which nothing is planned for a while
	tries int           // how many there were
	lost  []slot.PeerID // that failed this peer in the newest one
	until time.Duration // no plan before
}

// shortTries is the number of such attempts after which people are told.
const shortTries = 3

// noteShort takes in that this peer gets nothing of some peers of the newest plan's group.
func (pa *participant) noteShort() {
	d := pa.open
	p, s := d.last, &d.short
	if len(p.Ring) > 0 {
		return
	}
	var lost, all []slot.PeerID // all: and those that the leader knows to be gone
	for _, r := range d.groupReports.lost {
		i := p.Place(r.Peer)
		if i < 0 || r.Reason == wire.LostOutcome || r.Peer == pa.cfg.Self {
			continue
		}
		if all = union(all, []slot.PeerID{r.Peer}); !p.Gone.Has(i) {
			lost = union(lost, []slot.PeerID{r.Peer})
		}
	}
	if len(lost) == 0 || p.Living()-len(lost) >= pa.chain.Rules().MinPeers {
		return
	}
	group := d.groupReports.group
	if s.lost = lost; s.held != group && pa.tooFewWithout(all) {
		s.held, s.until = group, pa.now+pa.cfg.Timing.Retry<<min(s.tries, 5)
		d.life = max(d.life, s.until)
		if d.owed != never {
			d.owed = max(d.owed, s.until)
		}
	}
	if s.group == group {
		return
	}
	s.group = group
	s.tries++
	if s.tries == shortTries {
		pa.event(Event{
			Kind: EventShort, Height: d.ref.Height, Slot: p.Slot, Ballot: d.ballot, Peer: lost[0], Members: lost,
			Detail: pa.whyShort(),
		})
	}
}

// tooFewWithout says whether fewer than min_peers are left for any leader's group, without some
// peers.
func (pa *participant) tooFewWithout(lost []slot.PeerID) bool {
	others := slices.DeleteFunc(pa.presence.offers(), func(o slot.Offer) bool { return slices.Contains(lost, o.Peer) })
	return len(others) < pa.chain.Rules().MinPeers
}

// whyShort says which members keep the open slot from being decided, and what a person can do; ""
// if none does.
func (pa *participant) whyShort() string {
	d := pa.open
	s := d.short
	if s.tries < shortTries || d.last == nil {
		return ""
	}
	names := make([]string, len(s.lost))
	for i, p := range s.lost {
		names[i] = p.Short()
	}
	who, many := strings.Join(names[:min(len(names), 8)], ", "), len(s.lost) > 1
	text := fmt.Sprintf("slot %d waits, since min_peers is %d: ", d.last.Slot, pa.chain.Rules().MinPeers)
	takesPart := slices.Contains(livingOf(*d.last), pa.cfg.Self)
	if others := d.last.Living() - 1; takesPart && others > 1 && 2*len(s.lost) > others {
		return text + fmt.Sprintf("in %d tries this peer got nothing of %s: check its network (p2pdiloco doctor), or "+
			"start it again", s.tries, who)
	}
	text += fmt.Sprintf("%s %s heard, and took no part in %d tries: start %s again, or remove %[4]s (p2pdiloco remove)",
		who, map[bool]string{false: "is", true: "are"}[many], s.tries, map[bool]string{false: "it", true: "them"}[many])
	if lacks := pa.chain.Rules().MinPeers - len(pa.chain.Members()) + len(s.lost); lacks > 0 {
		text += fmt.Sprintf("; the run then needs %d more", lacks)
	}
	return text
}
