package auditor

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/audit"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

var errQuota = errors.New("it has been shown as much of this contribution as an auditor may ask for")

// Serve answers one stream of a peer.
func (a *Auditor) Serve(from slot.PeerID, s wire.Stream) {
	err := a.serve(from, s)
	if err != nil && !errors.Is(err, io.EOF) {
		a.cfg.Logger.Debug("an auditor's stream ended", "peer", from, "err", err)
		_ = s.Reset()
		return
	}
	_ = s.Close()
}

func (a *Auditor) serve(from slot.PeerID, s wire.Stream) error {
	if !a.cfg.Member(from) {
		return errors.New("the peer is no member")
	}
	for {
		_ = s.SetDeadline(time.Now().Add(2 * a.cfg.Timeout))
		b, err := wire.ReadMessage(s, maxRequest)
		if err != nil {
			return err
		}
		q, err := readRequest(b)
		if err != nil {
			return err
		}
		answer, err := a.answer(from, q)
		if err != nil {
			return err
		}
		if err := wire.WriteMessage(s, answer); err != nil {
			return err
		}
	}
}

// answer opens the own contribution, or passes on what another one shows.
func (a *Auditor) answer(from slot.PeerID, q request) ([]byte, error) {
	if int(q.Fragment) >= len(a.cfg.Params.Fragments) || q.Range.Begin >= q.Range.End ||
		q.Range.End > a.cfg.Params.Fragments[q.Fragment] {
		return nil, errors.New("no such range")
	}
	if !a.served.take(from, q, a.cfg.Params.Fragments[q.Fragment]) {
		return nil, errQuota
	}
	if q.Contributor != a.cfg.Self {
		return a.passOn(q), nil
	}
	own := a.cfg.Own(q.Root)
	if own == nil {
		return nil, nil
	}
	o, err := audit.OpenContribution(a.cfg.Params, q.Fragment, own, q.Range)
	if err != nil {
		return nil, err
	}
	return o.Append(nil), nil
}

// passOn asks the contributor in the place of an auditor that gets no answer. The answer is not
// looked at here: the auditor checks it.
func (a *Auditor) passOn(q request) []byte {
	b, err := a.fetch(q)
	if err != nil || len(b) == 0 {
		a.cfg.Logger.Warn("a contributor does not show what is to be checked", "peer", q.Contributor, "err", err)
		a.cfg.Unshown(q.Contributor, q.Root)
		return nil
	}
	return b
}

// fetch gets one answer as it is.
func (a *Auditor) fetch(q request) ([]byte, error) {
	s, err := a.open(context.Background(), q.Contributor)
	if err != nil {
		return nil, err
	}
	defer s.Reset() //nolint:errcheck // the answer was read, or does not come
	_ = s.SetDeadline(time.Now().Add(a.cfg.Timeout))
	if err := errors.Join(wire.WriteMessage(s, q.append(nil)), s.CloseWrite()); err != nil {
		return nil, err
	}
	return wire.ReadMessage(s, audit.MaxOpening(a.cfg.Params, q.Fragment, true))
}

// quota bounds what one auditor is shown of one contribution. It may ask for its share of the
// samples more than once: leaders change, and so do the segments' sets.
type quota struct {
	all bool // everything is audited: it may have all, twice
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
	quotaShare = 2       // one part in so many of a contribution, unless everything is audited
	quotaLeast = 1 << 21 // elements that an auditor may always have
	quotaKeys  = 1 << 16 // pairs of an auditor and a contribution
)

// take counts a request for a part of a contribution of so many elements, and says whether it is
// within the bound.
func (l *quota) take(from slot.PeerID, q request, elements uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := quotaKey{from, q.Root}
	if _, known := l.mu.shown[key]; !known && len(l.mu.shown) >= quotaKeys {
		return false
	}
	most := max(elements/quotaShare, quotaLeast)
	if l.all {
		most = 2 * elements
	}
	l.mu.shown[key] += q.Range.Len()
	return l.mu.shown[key] <= most
}

// Decided forgets what was shown: the contributions to another slot come.
func (a *Auditor) Decided() {
	a.served.mu.Lock()
	defer a.served.mu.Unlock()
	clear(a.served.mu.shown)
}
