package formation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// Config says what a Formation works with. All fields are required unless a comment says otherwise.
type Config struct {
	Network    *p2p.Network
	Given      spec.Spec              // the fields of the spec that are given on this peer
	Ticket     *ticket.Ticket         // the invitation; nil without one
	Found      bool                   // a run may be founded though no bootstrap address answers
	MaxAdopted uint64                 // elements of a layout that is adopted from others
	Listed     func(slot.PeerID) bool // peers that this one talks to; nil: all
	Places     *p2p.Places            // the names under which the run's peers announce themselves

	Presets   []string      // names of the presets that a run may have
	Preset    string        // the given or remembered preset; may be empty
	Default   string        // the preset that holds where Preset is empty and no peer announces one
	Discovery time.Duration // a peer that finds no other for this time founds the run
	Hello     time.Duration // between hellos while no spec is settled

	// These three are nil for an open run. In a private one they give the reason why this peer is
	// not admitted, whether it is admitted, and whether members have refused it.
	Refused <-chan error
	IsIn    func() bool
	Barred  func() bool

	Logger *slog.Logger
}

// checkRun compares the spec that a peer has with the ticket.
func (c Config) checkRun(theirs spec.Spec) error {
	if c.Ticket == nil || theirs.RunID() == c.Ticket.RunID {
		return nil
	}
	return fmt.Errorf("its run is another one of the name %q, with the ID %s where the ticket says %s", theirs.Name,
		theirs.RunID().Short(), c.Ticket.RunID.Short())
}

// Formation finds out which run spec holds and which peers share it. Its methods may be called from
// any goroutine.
type Formation struct {
	cfg     Config
	given   spec.Spec
	fields  map[string]string // the given fields, as a hello carries them; "layout" is a hash
	log     *slog.Logger
	settled chan struct{}    // closed once mu.spec is set
	founded chan struct{}    // closed by Founded, where this peer alone could found the run
	asks    chan chan<- bool // see hasLooked

	mu struct {
		sync.Mutex
		spec    *spec.Spec
		encoded []byte
		// the preset of the run's peers once a spec is settled; before, the given one or the
		// default
		preset string
		// set while the preset may differ from the default and no peer has announced it; closed
		// when one does
		awaited     chan struct{}
		received    bool             // a peer has announced the preset
		warned      bool             // a warning was logged of a peer with another preset
		incarnation slot.Incarnation // this peer's incarnation, once its vote log is open
		// peers without a spec that could settle one, with the time of their last hello
		searching map[slot.PeerID]time.Time
		promises  map[slot.PeerID]promise // peers that are about to found the run
		past      map[slot.PeerID]promise // peers that did not do so in time, or fell silent
		// the last time that one of the past was waited for
		lastPromise time.Time
		crowded     time.Time                // when a promise last found no room
		expected    map[slot.PeerID]expected // from whom each other peer expects the spec
		unfounded   bool                     // see Unfounded
		otherRuns   map[slot.PeerID]error    // peers of other runs of this name, how those differ
		outwaited   bool                     // see othersFirst
		// when words of the expected last gave up their places, and the most peers that were ahead
		// since
		crowdedWords, mostAt time.Time
		most                 int
		// why the ticket's run does not match what is given here; nil while it does
		unfit error
	}
}

// New makes a formation. It does nothing until Serve is called.
func New(cfg Config) *Formation {
	f := &Formation{cfg: cfg, given: cfg.Given, log: cfg.Logger}
	f.settled, f.founded, f.asks = make(chan struct{}), make(chan struct{}), make(chan chan<- bool)
	f.fields = cfg.Given.Fields()
	if len(cfg.Given.Layout) > 0 {
		f.fields["layout"] = slot.Hash(cfg.Given.Layout.Append(nil)).String()
	}
	f.mu.preset = cmp.Or(cfg.Preset, cfg.Default)
	f.mu.searching, f.mu.otherRuns = make(map[slot.PeerID]time.Time), make(map[slot.PeerID]error)
	f.mu.promises, f.mu.past = make(map[slot.PeerID]promise), make(map[slot.PeerID]promise)
	f.mu.expected = make(map[slot.PeerID]expected)
	return f
}

// receive takes in the hello of peer p.
func (f *Formation) receive(p slot.PeerID, h p2p.Hello) {
	if h.Run != f.given.Name {
		return
	}
	if len(h.Spec) == 0 {
		f.noteSearching(p, h.Given)
		f.noteExpected(p, h)
		return
	}
	if !f.isNews(p, h) {
		f.comparePreset(p, h)
		return
	}
	theirs, err := spec.Parse(h.Spec)
	if err == nil && theirs.Name != f.given.Name {
		err = fmt.Errorf("its run spec is of run %q", theirs.Name)
	}
	// The spec of the ticket's run is authentic, whichever peer passes it on.
	ticketed := err == nil && f.cfg.Ticket != nil && f.cfg.checkRun(theirs) == nil
	if err == nil {
		err = f.given.Adopt(theirs, p)
	}
	if d := theirs.Layout.Elements(); err == nil && len(f.given.Layout) == 0 && d > f.cfg.MaxAdopted {
		err = fmt.Errorf("its model has %d elements, at most %d are adopted: raise Config.MaxAdopted or "+
			"give the layout", d, f.cfg.MaxAdopted)
	}
	if err == nil {
		err = f.cfg.checkRun(theirs)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.searching, p)
	switch {
	case err != nil && ticketed:
		f.mu.unfit = err
	case err != nil:
		if f.mu.otherRuns[p] == nil {
			f.log.Warn("peer is in a run of this name with another spec", "peer", p, "err", err)
		}
		if len(f.mu.otherRuns) < maxKnown {
			f.mu.otherRuns[p] = err
		}
	case f.mu.spec == nil && h.Unfounded && !ticketed:
		if isOf(theirs, p) { // else nobody would keep the promise
			f.notePromise(p, h.Spec)
		}
	case f.mu.spec == nil:
		f.log.Info("adopted the run spec", "from", p, "run_id", theirs.RunID())
		f.takePreset(h.Timing)
		f.settle(theirs)
		f.comparePresetLocked(p, h.Timing)
	case theirs.RunID() != f.mu.spec.RunID():
		if len(f.mu.otherRuns) < maxKnown {
			f.mu.otherRuns[p] = errOtherRun // it is said once of each
		}
		f.log.Warn("peer is in another run of this name: the two do not train together. If this peer should take part "+
			"in that run, end it, and join with another data directory", "peer", p, "its_run_id", theirs.RunID(),
			"run_id", f.mu.spec.RunID())
	}
}

// noteSearching notes a peer that knows no spec yet. It warns if that peer cannot adopt the spec
// that this peer might settle.
func (f *Formation) noteSearching(p slot.PeerID, given map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if given["layout"] == "" {
		return // that peer cannot settle a spec either
	}
	_, met := f.mu.searching[p]
	if !met {
		for name, here := range f.fields {
			if there, ok := given[name]; ok && there != here {
				f.log.Warn("a peer that looks for this run, too, wants another value: one of the two will be refused",
					"peer", p, "field", name, "here", here, "there", there)
			}
		}
	}
	if met || len(f.mu.searching) < maxKnown || f.dropSearching(p) {
		f.mu.searching[p] = time.Now()
	}
}

// dropSearching makes room for a searching peer: one that is not heard any more gives up its place,
// or else the highest one, if it is above the new one. Nobody waits for higher ones. mu is held.
func (f *Formation) dropSearching(p slot.PeerID) bool {
	highest := p
	for q, at := range f.mu.searching {
		if !f.fresh(at) {
			highest = q
			break
		}
		highest = max(highest, q)
	}
	delete(f.mu.searching, highest)
	return len(f.mu.searching) < maxKnown
}

// isNews says whether a peer's spec is worth parsing; parsing a large layout takes long. A spec
// equal to the settled one is not, nor is that of a peer that was found to be in another run, nor
// what a peer repeats that is about to found its run.
func (f *Formation) isNews(p slot.PeerID, h p2p.Hello) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.spec == nil {
		if h.Unfounded && f.promised(p, h.Spec) {
			f.notePromise(p, h.Spec)
			return false
		}
		return true
	}
	return !bytes.Equal(h.Spec, f.mu.encoded) && f.mu.otherRuns[p] == nil && len(f.mu.otherRuns) < maxKnown
}

// settle fixes the spec; mu is held.
func (f *Formation) settle(s spec.Spec) {
	f.mu.spec, f.mu.encoded, f.mu.unfounded = &s, s.Append(nil), f.isMine(s)
	close(f.settled)
}

func (f *Formation) spec() *spec.Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.spec
}

// over says that this peer need not search for others any more.
func (f *Formation) over() bool {
	f.mu.Lock()
	known := f.mu.spec != nil && f.mu.awaited == nil
	f.mu.Unlock()
	return known && (f.cfg.IsIn == nil || f.cfg.IsIn())
}

// Introduce makes hellos name this peer's incarnation from now on.
func (f *Formation) Introduce(i slot.Incarnation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.incarnation = i
}

// Adopt settles a spec that this peer knows from an earlier start.
func (f *Formation) Adopt(s spec.Spec) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.spec == nil {
		f.takePreset("")
		f.settle(s)
	}
}

// Await returns the settled spec. It settles this peer's own when the discovery window has closed,
// no peer knows a spec and no peer with a lower ID is searching, too. Await fails if other peers
// know the run under another spec: they are the run.
func (f *Formation) Await(ctx context.Context) (spec.Spec, error) {
	if err := f.awaitDHT(ctx); err != nil {
		return spec.Spec{}, err
	}
	began := time.Now()
	if err := f.wait(ctx, time.After(f.cfg.Discovery)); err != nil {
		return spec.Spec{}, err
	}
	again := time.NewTicker(f.cfg.Hello)
	defer again.Stop()
	for warned := began; f.spec() == nil; {
		if err := f.decide(began, f.hasLooked(ctx)); err != nil {
			return spec.Spec{}, err
		}
		if f.cfg.Ticket != nil && time.Since(warned) > missingPause {
			warned = time.Now()
			f.warnMissing(errMissing)
		}
		if err := f.wait(ctx, again.C); err != nil {
			return spec.Spec{}, err
		}
	}
	return *f.spec(), nil
}

// hasLooked says whether this peer has looked around for others of the run: the DHT was searched,
// and each peer that was found there, or by others, had its first chance to answer a hello. On a
// busy machine that takes longer than the discovery window, and a run that is founded meanwhile
// divides its peers. Announcements of peers that are not there must not hold up the founding for
// ever, so decide bounds how long it waits for this.
func (f *Formation) hasLooked(ctx context.Context) bool {
	if f.cfg.Found { // the operator says that there is nobody
		return true
	}
	reply, late := make(chan bool, 1), time.NewTimer(f.cfg.Hello)
	defer late.Stop()
	select {
	case f.asks <- reply:
	case <-late.C: // nobody serves
		return false
	case <-ctx.Done():
		return false
	}
	select {
	case looked := <-reply:
		return looked
	case <-late.C: // the search is busy
	case <-ctx.Done():
	}
	return false
}

// wait returns when a time comes or the spec is settled. It fails when this peer is refused, and
// when ctx ends.
func (f *Formation) wait(ctx context.Context, until <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-f.cfg.Refused:
		return err
	case <-f.settled:
	case <-until:
	}
	return nil
}

var errOtherRun = errors.New("it is in another run of this name")

const (
	// searchingWait is the number of discovery windows for which this peer waits for each searching
	// peer with a lower ID to settle the spec.
	searchingWait = 5
	// hearsSearching is the number of pauses between hellos after which a silent peer does not
	// count any more.
	hearsSearching = 8
)

// decide settles this peer's own spec, unless another peer has to do that, or this one has not
// looked around.
func (f *Formation) decide(began time.Time, looked bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.unfit != nil {
		return f.mu.unfit
	}
	// a run that differs from the ticket is another one
	if f.mu.spec != nil || f.cfg.Ticket != nil {
		return nil
	}
	if f.cfg.Barred != nil && f.cfg.Barred() {
		return nil // the run exists
	}
	if !f.cfg.Found { // with Found the operator overrides what other peers announce
		for _, err := range f.mu.otherRuns {
			return err
		}
	}
	// with Found the operator says that nobody else founds the run
	waits := f.awaitsFounder() && !f.cfg.Found
	if last := f.lastPromise(); last.After(began) && !f.cfg.Found {
		began = last // the others have waited as long as this peer
	}
	if f.othersFirst(time.Since(began), looked) {
		return nil // another peer settles its spec, and this one adopts it
	}
	if len(f.given.Layout) == 0 || waits {
		return nil // without a layout this peer cannot found a run: it waits for one that can
	}
	spec := f.given.Settled()
	if spec.Byzantine() && len(spec.Founders) == 0 {
		// a stranger must not found the same spec again
		spec.Founders = []slot.PeerID{f.cfg.Network.ID()}
	}
	if err := errors.Join(spec.Validate(), spec.Layout.Validate()); err != nil {
		return err
	}
	if size := len(spec.Append(nil)); size > p2p.MaxSpec {
		return fmt.Errorf("run spec of %d bytes, at most %d can be told to others: shorten or join the layout's %d "+
			"tensors", size, p2p.MaxSpec, len(spec.Layout))
	}
	f.log.Info("nobody knows this run: settling its spec here", "run", spec.Name, "run_id", spec.RunID())
	f.settle(spec)
	return nil
}
