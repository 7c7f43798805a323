package nat

import (
	"fmt"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// put puts questions of so many names at a site, each of which is answered so; nil: none is. It
// says how many could be put.
func (qs *questions) put(site string, names int, now time.Time, yes *bool) (put int) {
	for i := range names {
		if q, mine := qs.find(peer.ID(fmt.Sprint(site, " ", i)), site, now); q != nil && mine {
			put++
			if yes != nil {
				qs.answer(q, *yes, now)
			}
		}
	}
	return put
}

// TestQuestionsOfOneAddress: whoever comes with many names shuts out nobody elsewhere, whether it
// answers or not.
func TestQuestionsOfOneAddress(t *testing.T) {
	var qs questions
	no, now := false, time.Now()
	if put := qs.put("silent", 2*maxRelayAskedAt, now, nil); put != maxRelayAskedAt {
		t.Errorf("%d names at one address are being asked, want %d", put, maxRelayAskedAt)
	}
	if put := qs.put("refused", 2*maxRelayAskedAt, now, &no); put != 2*maxRelayAskedAt ||
		len(qs.mu.of) != 2*maxRelayAskedAt {
		t.Errorf("%d of %d were asked, %d answers are kept", put, 2*maxRelayAskedAt, len(qs.mu.of))
	}
	if q, mine := qs.find("honest", "home", now); q == nil || !mine {
		t.Error("a peer elsewhere is not asked")
	}
}

// TestQuestionsForgetTheOldest: what is kept is bounded, and refusals go before those that were
// admitted.
func TestQuestionsForgetTheOldest(t *testing.T) {
	var qs questions
	yes, no, now := true, false, time.Now()
	qs.put("members", 10, now, &yes)
	for i := range maxRelayAsked/maxRelayAskedAt + 2 {
		now = now.Add(time.Second)
		if put := qs.put(fmt.Sprint("site ", i), maxRelayAskedAt, now, &no); put != maxRelayAskedAt {
			t.Errorf("%d names of site %d were asked", put, i)
		}
	}
	if n := len(qs.mu.of); n != maxRelayAsked {
		t.Errorf("%d answers are kept, want %d", n, maxRelayAsked)
	}
	if q, mine := qs.find("members 3", "members", now); q == nil || mine || !q.yes {
		t.Error("an answer that counts for long is forgotten before those that do not")
	}
	if q, mine := qs.find("members 3", "members", now.Add(relayAdmitted)); q == nil || !mine {
		t.Error("an answer counts for ever")
	}
}
