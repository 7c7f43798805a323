package formation

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// Config says what a Formation works with. All fields are required unless a comment says otherwise.
type Config struct {
	Network    *p2p.Network
	Given      spec.Spec             // the fields of the spec that are given on this peer
	ID         string                // what the run's ID begins with, in hex; empty: not known
	Start      []slot.PeerID         // those of the bootstrap addresses: the run of one is meant
	Found      bool                  // where none is in sight, it founds one and asks nobody more
	MayFound   func(slot.Root) error // its error keeps this peer from founding it; may be nil
	MaxAdopted uint64                // elements of a layout that is adopted from others
	Places     *p2p.Places           // the names under which the run's peers announce themselves

	Presets   []string      // names of the presets that a run may have
	Preset    string        // the given or remembered preset; may be empty
	Default   string        // the preset that holds where Preset is empty and no peer announces one
	Discovery time.Duration // a peer that finds no other for this time founds the run
	Glance    time.Duration // a peer looks around for so long at least before it takes one in sight
	Hello     time.Duration // between hellos while no spec is settled

	// GiveUp is called once this peer is to give its run up for another one, see weigh; it returns
	// at once. Nil: this peer gives up none.
	GiveUp func(Sighted)

	// These three are nil for an open run. In a private one they give the reason why this peer is
	// not admitted, whether it is admitted, and whether members have refused it.
	Refused <-chan error
	IsIn    func() bool
	Barred  func() bool

	Logger *slog.Logger
}

// checkRun compares the run that a peer is in with the one that is meant.
func (c Config) checkRun(id slot.Root) error {
	if strings.HasPrefix(id.String(), c.ID) {
		return nil
	}
	return fmt.Errorf("its run is another one of this name, with the ID %s where %s is meant", id.Short(), c.ID)
}

// Formation finds out which run spec holds and which peers share it. Its methods may be called from
// any goroutine.
type Formation struct {
	cfg     Config
	given   spec.Spec
	fields  map[string]string // the given fields, as a hello carries them; "layout" is a hash
	log     *slog.Logger
	settled chan struct{} // closed once mu.spec is set
	// Whether this peer has looked around for others of the run: the DHT was searched, and each
	// peer that was found there, or by others, had its first chance to answer a hello. On a busy
	// machine that takes longer than the discovery window, and a run that is founded meanwhile
	// divides its peers. Announcements of peers that are not there must not hold up the founding
	// for ever, so decide bounds how long it waits for this.
	looked atomic.Bool

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
		warned      bool             // a warning was logged of a peer with another preset
		incarnation slot.Incarnation // this peer's incarnation, once its vote log is open
		// newest slot of the run, its number of members, whether only the founder ever was one, and
		// whether this peer is one; nil before the vote log is open
		progress func() (slot, members uint64, alone, in bool)
		// peers without a spec that could settle one, with the time of their last hello
		searching map[slot.PeerID]time.Time
		otherRuns map[slot.PeerID]error // peers of other runs of this name, how those differ
		sighted   map[slot.Root]Sighted // runs that this peer may take part in, see choose
		waited    bool                  // the discovery window is over
		outwaited bool                  // see othersFirst
		// why the ticket's run does not match what is given here; nil while it does
		unfit error
	}
}

// New makes a formation. It does nothing until Serve is called.
func New(cfg Config) *Formation {
	f := &Formation{cfg: cfg, given: cfg.Given, log: cfg.Logger}
	f.settled = make(chan struct{})
	f.fields = cfg.Given.Fields()
	if len(cfg.Given.Layout) > 0 {
		f.fields["layout"] = slot.Hash(cfg.Given.Layout.Append(nil)).String()
	}
	f.mu.preset = cmp.Or(cfg.Preset, cfg.Default)
	f.mu.searching, f.mu.otherRuns = make(map[slot.PeerID]time.Time), make(map[slot.PeerID]error)
	f.mu.sighted = make(map[slot.Root]Sighted)
	return f
}

// receive takes in the hello of peer p.
func (f *Formation) receive(p slot.PeerID, h p2p.Hello) {
	if h.Run != f.given.Name {
		return
	}
	if len(h.Spec) == 0 {
		f.noteSearching(p, h.Given)
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
	id := theirs.RunID()
	// The spec of the run that is meant is authentic, whichever peer passes it on.
	meant := err == nil && f.cfg.ID != "" && f.cfg.checkRun(id) == nil
	if err == nil {
		err = f.given.Adopt(theirs, p)
	}
	if d := theirs.Layout.Elements(); err == nil && len(f.given.Layout) == 0 && d > f.cfg.MaxAdopted {
		err = fmt.Errorf("its model has %d elements, at most %d are adopted: raise Config.MaxAdopted or "+
			"give the layout", d, f.cfg.MaxAdopted)
	}
	if err == nil {
		err = f.cfg.checkRun(id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.mu.searching, p)
	switch {
	case err != nil && meant:
		f.mu.unfit = err
	case err != nil:
		if f.mu.otherRuns[p] == nil {
			f.log.Warn("peer is in a run of this name with another spec", "peer", p, "err", err)
		}
		if len(f.mu.otherRuns) < maxKnown {
			f.mu.otherRuns[p] = err
		}
	case f.mu.spec == nil:
		run := Sighted{ID: id, Spec: theirs, From: p, Hello: h}
		f.sight(run, meant || f.mu.waited && !run.alone() || slices.Contains(f.cfg.Start, p))
	case id != f.mu.spec.RunID():
		f.noteOther(Sighted{ID: id, Spec: theirs, From: p, Hello: h})
	}
}

// noteOther takes in another run than this peer's; mu is held.
func (f *Formation) noteOther(run Sighted) {
	told := f.mu.otherRuns[run.From] != nil
	if len(f.mu.otherRuns) < maxKnown {
		f.mu.otherRuns[run.From] = errOtherRun // it is said once of each
	}
	if f.alone() {
		f.sight(run, false)
	}
	if f.weigh(run.ID) || told {
		return
	}
	f.log.Warn("peer is in another run of this name: the two do not train together. If this peer should take part "+
		"in that run, end it, and join with another data directory", "peer", run.From, "its_run_id", run.ID,
		"run_id", f.mu.spec.RunID())
}

// isNews says whether a peer's spec is worth parsing; parsing a large layout takes long. A spec
// equal to the settled one is not, nor is that of a peer that was found to be in another run, nor
// that of a run in sight unless it settles the choice: there the rest of the hello is news.
func (f *Formation) isNews(p slot.PeerID, h p2p.Hello) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	alone := f.alone()
	if f.mu.spec == nil || alone {
		for id, run := range f.mu.sighted {
			if bytes.Equal(run.Hello.Spec, h.Spec) && !slices.Contains(f.cfg.Start, p) {
				f.sight(Sighted{ID: id, Spec: run.Spec, From: p, Hello: h}, false)
				f.weigh(id)
				return false
			}
		}
	}
	other := f.mu.otherRuns[p]
	return f.mu.spec == nil || !bytes.Equal(h.Spec, f.mu.encoded) && len(f.mu.otherRuns) < maxKnown &&
		(other == nil || alone && errors.Is(other, errOtherRun) && len(f.mu.sighted) < maxSighted)
}

// OnlyFounder says whether a peer alone may found the run of a spec.
func OnlyFounder(s spec.Spec, p slot.PeerID) bool {
	return s.Byzantine() && len(s.Founders) == 1 && s.Founders[0] == p
}

// settle fixes the spec; mu is held.
func (f *Formation) settle(s spec.Spec) {
	f.mu.spec, f.mu.encoded = &s, s.Append(nil)
	close(f.settled)
}

func (f *Formation) spec() *spec.Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.spec
}

// isSettled says that this peer need not search for others any more. One that is alone goes on.
func (f *Formation) isSettled() bool {
	f.mu.Lock()
	known := f.mu.spec != nil && f.mu.awaited == nil && !f.alone()
	f.mu.Unlock()
	return known && (f.cfg.IsIn == nil || f.cfg.IsIn())
}

// Introduce makes hellos name this peer's incarnation from now on, and say how far its run is.
// progress says besides whether only the founder ever was a member, and whether this peer is one.
func (f *Formation) Introduce(i slot.Incarnation, progress func() (slot, members uint64, alone, in bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.incarnation, f.mu.progress = i, progress
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

// Await returns the settled spec: of the run in sight once this peer has looked around, or, where
// nobody knows one, this peer's own. Await fails if other peers know the run under another spec
// (they are the run), and if several runs are in sight. While no bootstrap address answers it
// decides nothing: a typo in an address would else found a second run.
func (f *Formation) Await(ctx context.Context) (spec.Spec, error) {
	var began time.Time
	warned, pause := time.Now(), f.cfg.Discovery
	again := time.NewTicker(f.cfg.Hello)
	defer again.Stop()
	for f.spec() == nil {
		missing := f.cfg.Network.Bootstrap().Err()
		if missing == nil || f.cfg.Found {
			if began.IsZero() {
				f.askStart(ctx) // until then not all of them may be connected, and searched
				began = time.Now()
			}
			if err := f.decide(began, f.looked.Load()); err != nil {
				return spec.Spec{}, err
			}
		}
		if time.Since(warned) > pause {
			warned, pause = time.Now(), missingPause
			f.warnMissing(missing)
		}
		select {
		case <-ctx.Done():
			return spec.Spec{}, ctx.Err()
		case err := <-f.cfg.Refused:
			return spec.Spec{}, err
		case <-f.settled:
		case <-again.C:
		}
	}
	return *f.spec(), nil
}

var errOtherRun = errors.New("it is in another run of this name")

// decide adopts the one run in sight, once this peer has looked around. It settles this peer's own
// spec when the discovery window is over, unless another peer has to do that, or this one has not
// looked around.
func (f *Formation) decide(began time.Time, looked bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	waited := time.Since(began)
	f.mu.waited = waited >= f.cfg.Discovery
	switch {
	case f.mu.unfit != nil:
		return f.mu.unfit
	case f.mu.spec != nil:
		return nil
	case f.mu.waited || looked && waited >= f.cfg.Glance:
		if err := f.choose(); err != nil {
			return err
		}
	}
	// a run that differs from the one that is meant is another one; one that bars this peer exists
	if f.mu.spec != nil || len(f.mu.sighted) > 0 || !f.mu.waited || f.cfg.ID != "" ||
		f.cfg.Barred != nil && f.cfg.Barred() {
		return nil
	}
	if !f.cfg.Found { // with Found the operator overrides what other peers announce
		for _, err := range f.mu.otherRuns {
			return err
		}
	}
	if f.othersFirst(waited, looked) || len(f.given.Layout) == 0 {
		return nil // another peer settles its spec, and this one adopts it
	}
	return f.found()
}

// found settles this peer's own spec; mu is held.
func (f *Formation) found() error {
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
	if f.cfg.MayFound != nil {
		if err := f.cfg.MayFound(spec.RunID()); err != nil {
			return err
		}
	}
	f.log.Info("nobody knows this run: settling its spec here", "run", spec.Name, "run_id", spec.RunID())
	f.settle(spec)
	return nil
}
