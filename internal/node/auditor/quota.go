package auditor

import (
	"errors"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

var errQuota = errors.New("it has been shown as much of this contribution as an auditor may ask for")

// quota bounds what one auditor is shown of one contribution. It may ask for its share of the
// samples more than once: leaders change, and so do the segments' sets.
type quota struct {
	all bool // everything is audited
	mu  struct {
		sync.Mutex
		shown map[quotaKey]uint64
	}
}

type quotaKey struct {
	from slot.PeerID
	root slot.Root
}

const (
	quotaAll   = 16      // times all of a contribution, where everything is audited
	quotaLeast = 1 << 22 // elements that an auditor may always have
	quotaKeys  = 1 << 16 // pairs of an auditor and a contribution
)

// most is how much an auditor is shown of a contribution of so many elements.
func (l *quota) most(elements uint64) uint64 {
	if l.all {
		return quotaAll * elements
	}
	return max(elements, quotaLeast)
}

// seatless stands for all that ask without a seat: each try of a leader may have another entrant,
// whom the others do not know yet.
const seatless slot.PeerID = ""

// take counts a request for a part of a contribution of so many elements, and says whether it is
// within the bound. Cost is what Cost says of the request. The contribution is held: names that a
// peer makes up are not counted.
func (l *quota) take(from slot.PeerID, root slot.Root, cost, elements uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := quotaKey{from, root}
	if _, known := l.mu.shown[key]; !known && len(l.mu.shown) >= quotaKeys {
		return false
	}
	l.mu.shown[key] += cost
	return l.mu.shown[key] <= l.most(elements)
}

// forget forgets what was shown.
func (l *quota) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.mu.shown)
}
