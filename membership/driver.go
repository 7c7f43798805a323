package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// The way of a message:
//
//	                     many goroutines           one goroutine, which owns the machine
//	transport -> Deliver -> inbox -> verifiers -> inputs -> Machine.Step ─┐
//	worker    -> Report  ------------------------> inputs -> Machine.Report ┤
//	timer     -----------------------------------> tick   -> Machine.Tick ──┴> Ready -> Store.Save -> sign -> Transport
//	                                                                                                     └-> Worker, OnEvent
//
// Inputs that wait together are taken together and share one Save. Bodies addressed to this peer itself go through Step like
// any other's, after they have been saved and signed.
const (
	verifiers    = 2   // an Ed25519 check takes some 50 us; more would only compete with training
	inputsAtOnce = 256 // taken before what they led to is saved and sent
)

// DriverConfig says what a Driver works with. All fields without a remark are required.
type DriverConfig struct {
	Store       Store
	Signer      Signer
	Transport   Transport
	Worker      Worker
	Rules       Rules
	Timing      Timing
	Plan        Planner
	Verify      slot.Verifier
	NeverFounds bool // see Config; so are the next four
	PauseOnLoss bool
	Open        bool
	Follow      []slot.PeerID
	Pin         slot.Root
	Logger      *slog.Logger // nil: silent
	OnEvent     func(Event)  // called from the driver's loop in order; must not block. nil: nobody listens
}

// Validate reports every fault at once.
func (c DriverConfig) Validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New("membership: DriverConfig needs "+what))
		}
	}
	need(c.Store != nil, "a Store")
	need(c.Signer != nil, "a Signer")
	need(c.Transport != nil, "a Transport")
	need(c.Worker != nil, "a Worker")
	need(c.Plan != nil, "a Planner")
	need(c.Verify != nil, "a Verifier")
	need(c.Timing.Beat > 0, "a Timing: Beat must be above zero")
	return errors.Join(errs...)
}

// Driver runs one peer's ledger. All methods may be called from any goroutine.
type Driver struct {
	cfg     DriverConfig
	log     *slog.Logger
	inc     slot.Incarnation
	inbox   *inbox
	inputs  *inputs
	blame   *blame
	answers *answers
	started time.Time
	done    chan struct{} // closed when the driver has stopped

	mu struct {
		sync.Mutex // around the machine: the loop steps it, Record reads it
		machine    *Machine
	}
	view struct {
		sync.Mutex
		now     View
		changed chan struct{} // closed at the next change; nil while nobody waits
	}
	life struct {
		sync.Mutex
		cancel context.CancelFunc // nil before Start
		closed bool
		err    error
	}
	wg sync.WaitGroup

	// Owned by the loop.
	self      []Message                       // signed, addressed to this peer itself
	alive     *Envelope                       // the newest ALIVE that was sent
	connected map[slot.PeerID]ReportConnected // the newest of each
}

// NewDriver loads the store and makes a driver that does nothing until Start.
func NewDriver(cfg DriverConfig) (*Driver, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	saved, err := cfg.Store.Load()
	if err != nil {
		return nil, fmt.Errorf("load the ledger: %w", err)
	}
	d := &Driver{
		cfg: cfg, log: cfg.Logger, inc: saved.Incarnation, inbox: newInbox(), inputs: newInputs(), blame: newBlame(cfg.Logger),
		answers: newAnswers(),
		done:    make(chan struct{}), connected: map[slot.PeerID]ReportConnected{},
	}
	d.mu.machine = NewMachine(Config{
		Self: cfg.Signer.ID(), Incarnation: saved.Incarnation, Rules: cfg.Rules, Timing: cfg.Timing,
		Plan: cfg.Plan, Verify: cfg.Verify, NeverFounds: cfg.NeverFounds, PauseOnLoss: cfg.PauseOnLoss, Open: cfg.Open, Follow: cfg.Follow, Pin: cfg.Pin,
	}, saved)
	d.view.now = d.mu.machine.View()
	return d, nil
}

// Start begins to work. The driver stops when ctx ends, at Close, or when its store or signer fails.
func (d *Driver) Start(ctx context.Context) error {
	d.life.Lock()
	defer d.life.Unlock()
	if d.life.closed {
		return errDriverClosed
	}
	if d.life.cancel != nil {
		return errors.New("membership: the driver was started before")
	}
	ctx, d.life.cancel = context.WithCancel(ctx)
	d.started = time.Now()
	for range verifiers {
		d.wg.Go(d.verifyLoop)
	}
	d.wg.Go(func() { d.loop(ctx) })
	return nil
}

var errDriverClosed = fmt.Errorf("membership driver: %w", net.ErrClosed)

// Close stops the driver and waits for its goroutines. It leaves the store open, and says what Err says.
func (d *Driver) Close() error {
	d.life.Lock()
	first := !d.life.closed
	d.life.closed = true
	cancel := d.life.cancel
	d.life.Unlock()
	switch {
	case cancel != nil:
		cancel()
	case first: // never started
		d.inbox.close()
		close(d.done)
	}
	d.wg.Wait()
	return d.Err()
}

// Done is closed when the driver has stopped, for whatever reason.
func (d *Driver) Done() <-chan struct{} { return d.done }

// Err is the fault that stopped the driver; nil while it works and after an orderly end.
func (d *Driver) Err() error {
	d.life.Lock()
	defer d.life.Unlock()
	return d.life.err
}

// Deliver takes a sealed message from the transport. from is the peer that the transport vouches for, of a stream its other end
// and of an announcement its author: it is charged for the queue the message takes, blamed if the message is bad, and must have
// signed it. Deliver never blocks and keeps b.
func (d *Driver) Deliver(from slot.PeerID, b []byte) {
	if len(b) > slot.MaxMessage {
		d.blame.bad(from, fmt.Errorf("message of %d bytes: more than %d", len(b), slot.MaxMessage))
		return
	}
	d.inbox.put(from, b)
}

// Report takes what the worker or the node has to say. It never blocks, and nothing is lost while the driver works.
func (d *Driver) Report(r Report) { d.inputs.report(r) }

// Record is the certified record at a height of the current chain, from 1.
func (d *Driver) Record(height uint64) (Commit, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.machine.Record(height)
}

// Standing is what the newest certified record says of a peer; of no name: the turn of rotations.
func (d *Driver) Standing(p slot.PeerID) Standing {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.machine.Standing(p)
}

// Incarnation is the one that this peer's messages carry.
func (d *Driver) Incarnation() slot.Incarnation { return d.inc }

// View is what the peer knew and had saved after its newest inputs.
func (d *Driver) View() View {
	d.view.Lock()
	defer d.view.Unlock()
	return d.view.now
}

// WaitView waits until the view satisfies enough, and gives that view. enough is called many times, from the caller's goroutine.
func (d *Driver) WaitView(ctx context.Context, enough func(View) bool) (View, error) {
	for {
		view, changed := d.watch()
		if enough(view) {
			return view, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return view, ctx.Err()
		case <-d.done:
			return view, d.stopped()
		}
	}
}

func (d *Driver) watch() (View, <-chan struct{}) {
	d.view.Lock()
	defer d.view.Unlock()
	if d.view.changed == nil {
		d.view.changed = make(chan struct{})
	}
	return d.view.now, d.view.changed
}

func (d *Driver) stopped() error {
	if err := d.Err(); err != nil {
		return fmt.Errorf("%w: %w", errDriverClosed, err)
	}
	return errDriverClosed
}
