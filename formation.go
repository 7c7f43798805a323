package p2pdiloco

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// meeting finds out which run spec holds and who shares it, by saying hello to every peer that discovery turns up.
//
// A peer that was given a run's name knows only some of its spec, so it cannot know the run ID yet. It adopts the spec of the
// first peer that has one. When the discovery window closes and nobody has one, the lowest ID among the peers that see each
// other settles its own, and the others adopt that. Whether a settled spec's run is founded is for the ledger to decide.
type meeting struct {
	net    *p2p.Network
	cfg    Config
	given  Spec
	said   map[string]string // what is given, as a hello tells it; "layout" is its hash
	timing preset
	log    *slog.Logger

	settled chan struct{} // closed once mu.spec is set
	refused <-chan error  // gives why this peer is not let into a private run; nil where none can
	isIn    func() bool   // whether it is let in; nil where all are
	barred  func() bool   // whether members have refused it; nil where none can
	places  *p2p.Places   // what the run's peers announce themselves under

	mu struct {
		sync.Mutex
		spec        *Spec
		encoded     []byte
		preset      string               // of the run's peers, once there is a spec; else that which was given, or the default
		untold      chan struct{}        // while nobody has told it, and it may be another than the default; then closed
		told        bool                 // that it is
		warned      bool                 // that a peer has another one
		incarnation slot.Incarnation     // of this peer's vote log, once that is open
		seekers     map[PeerID]time.Time // peers without a spec that could settle one, when they last said so
		strangers   map[PeerID]error     // peers of another run of this name
		unfit       error                // the ticket's run is there, and not as this peer was told it is
	}
}

func newMeeting(net *p2p.Network, cfg Config, timing preset) *meeting {
	given := cfg.Spec
	m := &meeting{net: net, cfg: cfg, given: given, timing: timing, log: cfg.Logger, settled: make(chan struct{})}
	m.said = given.Fields()
	if len(given.Layout) > 0 {
		m.said["layout"] = slot.Hash(given.Layout.Append(nil)).String()
	}
	m.mu.preset = cfg.preset()
	m.mu.seekers, m.mu.strangers = make(map[PeerID]time.Time), make(map[PeerID]error)
	return m
}

// heard takes in what p said of itself.
func (m *meeting) heard(p PeerID, h p2p.Hello) {
	if h.Run != m.given.Name {
		return
	}
	if len(h.Spec) == 0 {
		m.heardSeeker(p, h.Given)
		return
	}
	if !m.isNews(p, h.Spec) {
		m.comparePreset(p, h)
		return
	}
	theirs, err := ParseSpec(h.Spec)
	if err == nil && theirs.Name != m.given.Name {
		err = fmt.Errorf("its run spec is of run %q", theirs.Name)
	}
	ticketed := err == nil && m.cfg.ticket != nil && m.cfg.checkRun(theirs) == nil // the run itself says what differs, whoever passes it on
	if err == nil {
		err = m.given.Adopt(theirs, p)
	}
	if d := theirs.Layout.Elements(); err == nil && len(m.given.Layout) == 0 && d > m.cfg.MaxAdopted {
		err = fmt.Errorf("its model has %d elements, at most %d are adopted: raise Config.MaxAdopted or give the layout", d, m.cfg.MaxAdopted)
	}
	if err == nil {
		err = m.cfg.checkRun(theirs)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mu.seekers, p)
	switch {
	case err != nil && ticketed:
		m.mu.unfit = err
	case err != nil:
		if m.mu.strangers[p] == nil {
			m.log.Warn("peer is in a run of this name with another spec", "peer", p, "err", err)
		}
		if len(m.mu.strangers) < maxMet {
			m.mu.strangers[p] = err
		}
	case m.mu.spec == nil:
		m.log.Info("adopted the run spec", "from", p, "run_id", theirs.RunID())
		m.takePreset(h.Timing)
		m.settle(theirs)
		m.comparePresetLocked(p, h.Timing)
	case theirs.RunID() != m.mu.spec.RunID():
		m.log.Warn("peer is in another run of this name", "peer", p, "its_run_id", theirs.RunID(), "run_id", m.mu.spec.RunID())
	}
}

// heardSeeker notes a peer that knows no spec yet, and warns where it cannot take the one that might be settled here.
func (m *meeting) heardSeeker(p PeerID, given map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if given["layout"] == "" {
		return // it cannot settle one either
	}
	_, met := m.mu.seekers[p]
	if !met {
		for name, here := range m.said {
			if there, ok := given[name]; ok && there != here {
				m.log.Warn("a peer that looks for this run, too, wants another value: one of the two will be refused",
					"peer", p, "field", name, "here", here, "there", there)
			}
		}
	}
	if met || len(m.mu.seekers) < maxMet {
		m.mu.seekers[p] = time.Now()
	}
}

// isNews says whether a peer's spec is worth parsing, which for a large layout takes long: not if it is ours, and once one is
// settled not if this peer's was found wanting before.
func (m *meeting) isNews(p PeerID, spec []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.spec == nil {
		return true
	}
	return !bytes.Equal(spec, m.mu.encoded) && m.mu.strangers[p] == nil && len(m.mu.strangers) < maxMet
}

// settle fixes the spec; mu is held.
func (m *meeting) settle(s Spec) {
	m.mu.spec, m.mu.encoded = &s, s.Append(nil)
	close(m.settled)
}

func (m *meeting) spec() *Spec {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.spec
}

// over says that nobody need be looked for any more.
func (m *meeting) over() bool {
	m.mu.Lock()
	known := m.mu.spec != nil && m.mu.untold == nil
	m.mu.Unlock()
	return known && (m.isIn == nil || m.isIn())
}

// introduce lets hellos name this peer's incarnation from now on.
func (m *meeting) introduce(i slot.Incarnation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.incarnation = i
}

// adopt settles a spec known from before.
func (m *meeting) adopt(s Spec) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.spec == nil {
		m.takePreset("")
		m.settle(s)
	}
}

// await returns the settled spec. It settles this peer's own when the discovery window has closed, nobody knows one and no
// lower peer is seeking, too. Peers that know the run under another spec make it fail: they are the run.
func (m *meeting) await(ctx context.Context) (Spec, error) {
	if err := m.awaitDHT(ctx); err != nil {
		return Spec{}, err
	}
	began := time.Now()
	window := time.NewTimer(m.timing.discovery)
	defer window.Stop()
	select {
	case <-ctx.Done():
		return Spec{}, ctx.Err()
	case <-m.settled:
		return *m.spec(), nil
	case err := <-m.refused:
		return Spec{}, err
	case <-window.C:
	}
	ticker := time.NewTicker(m.timing.hello)
	defer ticker.Stop()
	for told := began; ; {
		if err := m.decide(began); err != nil {
			return Spec{}, err
		}
		if m.cfg.ticket != nil && time.Since(told) > missingAgain {
			told = time.Now()
			m.sayMissing(errMissing)
		}
		select {
		case <-ctx.Done():
			return Spec{}, ctx.Err()
		case <-m.settled:
			return *m.spec(), nil
		case err := <-m.refused:
			return Spec{}, err
		case <-ticker.C:
		}
	}
}

// missingAgain is between words about nobody being found.
const missingAgain = 20 * time.Second

var errMissing = errors.New("some answer, and none of them knows a peer of the run")

// sayMissing says why there is no getting on with a ticket.
func (m *meeting) sayMissing(err error) {
	m.log.Warn("nobody of the ticket's run is found yet; still looking. If the run's peers have ended or moved, ask one for a new ticket (p2pdiloco invite)", "err", err)
}

// awaitDHT waits until a bootstrap address answers, where any were given: a typo must not found a lonely run.
func (m *meeting) awaitDHT(ctx context.Context) error {
	poll := time.NewTicker(m.timing.hello)
	defer poll.Stop()
	told, wait := time.Now(), m.timing.discovery
	for !m.cfg.Found && m.spec() == nil {
		err := m.net.Bootstrap().Err()
		if err == nil {
			return nil
		}
		if time.Since(told) > wait {
			told, wait = time.Now(), missingAgain
			if m.cfg.ticket != nil {
				m.sayMissing(err)
				continue
			}
			m.log.Warn("still trying; founding is off until a bootstrap address answers (Found, --found, overrides)", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.settled:
		case err := <-m.refused:
			return err
		case <-poll.C:
		}
	}
	return nil
}

// seekersWait is for how many discovery windows a lower peer that only seeks is believed to settle the spec soon.
const seekersWait = 5

// decide settles this peer's own spec, unless that is for another to do.
func (m *meeting) decide(began time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.unfit != nil {
		return m.mu.unfit
	}
	if m.mu.spec != nil || m.cfg.ticket != nil { // whoever differs from a ticket is not its run
		return nil
	}
	if m.barred != nil && m.barred() {
		return nil // the run exists
	}
	if !m.cfg.Found { // else the operator knows better than whoever says hello
		for _, err := range m.mu.strangers {
			return err
		}
	}
	for p, at := range m.mu.seekers {
		if p < m.net.ID() && time.Since(at) < 8*m.timing.hello && time.Since(began) < seekersWait*m.timing.discovery {
			return nil // it settles; we adopt
		}
	}
	if len(m.given.Layout) == 0 {
		return nil // nothing to found a run with: wait for those who have
	}
	spec := m.given.Settled()
	if err := errors.Join(spec.Validate(), spec.Layout.Validate()); err != nil {
		return err
	}
	if size := len(spec.Append(nil)); size > p2p.MaxSpec {
		return fmt.Errorf("run spec of %d bytes, at most %d can be told to others: shorten or join the layout's %d tensors", size, p2p.MaxSpec, len(spec.Layout))
	}
	m.log.Info("nobody knows this run: settling its spec here", "run", spec.Name, "run_id", spec.RunID())
	m.settle(spec)
	return nil
}
