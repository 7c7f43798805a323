package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/membership/chain"
	"github.com/p2pdiloco/p2pdiloco/membership/wire"
)

// The way of a message:
//
//	                     many goroutines        one goroutine, the loop
//	transport -> Deliver -> inbox -> verifiers -> inputs -> Machine.Step ───┐
//	worker    -> Report  -----------------------> inputs -> Machine.Report ─┤
//	timer     ----------------------------------> tick   -> Machine.Tick ───┴-> Ready
//	Ready -> Store.Save -> sign -> Transport, Worker, OnEvent
//
// The loop takes all inputs that wait together, and they share one Save. Bodies addressed to this
// peer itself go through Step like any other peer's, after they have been saved and signed.
// an Ed25519 check takes some 50 us; more verifiers would only compete with training
const verifiers = 2

// DriverConfig says what a Driver works with. All fields are required unless a comment says
// otherwise.
type DriverConfig struct {
	Store       Store
	Signer      wire.Signer
	Transport   Transport
	Rules       chain.Rules
	Timing      Timing
	Plan        Planner
	Verify      slot.Verifier
	NeverFounds bool // see Config, also for the next four
	PauseOnLoss bool
	Open        bool
	Follow      []slot.PeerID
	Pin         slot.Root
	Logger      *slog.Logger // nil: silent
	// OnEvent, if set, is called from the driver's loop, in order. It must not block.
	OnEvent func(Event)
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
	need(c.Plan != nil, "a Planner")
	need(c.Verify != nil, "a Verifier")
	need(c.Timing.Beat > 0, "a Timing: Beat must be above zero")
	return errors.Join(errs...)
}

// Driver runs one peer's ledger. All methods may be called from any goroutine.
type Driver struct {
	cfg      DriverConfig
	core     *core
	views    *views
	inbox    *inbox
	verifier *verifier
	inputs   *inputs
	done     chan struct{} // closed when the driver has stopped

	life struct {
		sync.Mutex
		cancel context.CancelFunc // nil before Start
		closed bool
		err    error
	}
	wg sync.WaitGroup
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
	on, err := chain.Resume(cfg.Rules, cfg.Pin, cfg.Store, saved.Height)
	if err != nil {
		return nil, fmt.Errorf("load the ledger: %w", err)
	}
	verify := newVerified(cfg.Verify).check
	machine := NewMachine(Config{
		Self: cfg.Signer.ID(), Incarnation: saved.Incarnation, Rules: cfg.Rules, Timing: cfg.Timing,
		Plan: cfg.Plan, Verify: verify, NeverFounds: cfg.NeverFounds, PauseOnLoss: cfg.PauseOnLoss, Open: cfg.Open,
		Follow: cfg.Follow, Pin: cfg.Pin, Rand: rand.Uint64,
	}, saved, on)
	d := &Driver{
		cfg: cfg, core: newCore(machine), views: newViews(machine.View()), inbox: newInbox(), inputs: newInputs(),
		done: make(chan struct{}),
	}
	d.verifier = &verifier{
		runID: cfg.Rules.Run, self: cfg.Signer.ID(), inc: saved.Incarnation, verify: verify,
		inputs: d.inputs, answers: newAnswers(), blame: newBlame(cfg.Logger),
		views: d.views,
	}
	return d, nil
}

// Start begins to work, with a worker that does what the machine asks for. The worker may have been
// made from what the driver knows before Start: its Record, View and Access. The driver stops
// when ctx ends, at Close, or when its store or signer fails.
func (d *Driver) Start(ctx context.Context, worker Worker) error {
	d.life.Lock()
	defer d.life.Unlock()
	if d.life.closed {
		return errDriverClosed
	}
	if d.life.cancel != nil {
		return errors.New("membership: the driver was started before")
	}
	ctx, d.life.cancel = context.WithCancel(ctx)
	for range verifiers {
		d.wg.Go(func() { d.verifier.run(d.inbox) })
	}
	l := newLoop(d.cfg, d.core, d.views, d.inputs, d.verifier.blame, worker)
	d.wg.Go(func() { d.stop(l.run(ctx)) })
	return nil
}

// stop ends what feeds the loop, and wakes all waiters.
func (d *Driver) stop(err error) {
	if err != nil {
		d.cfg.Logger.Error("the ledger has stopped on this peer: nothing more is signed or sent", "error", err)
	}
	d.inbox.close()
	d.inputs.close()
	d.life.Lock()
	defer d.life.Unlock()
	d.life.err = err
	d.life.cancel() // the worker's context
	close(d.done)
}

var errDriverClosed = fmt.Errorf("membership driver: %w", net.ErrClosed)

// Close stops the driver and waits for its goroutines. It leaves the store open, and returns what
// Err returns.
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

// Err is the fault that stopped the driver. It is nil while the driver works and after an orderly
// end.
func (d *Driver) Err() error {
	d.life.Lock()
	defer d.life.Unlock()
	return d.life.err
}

// Deliver takes a sealed message from the transport. from is the peer that the transport vouches
// for: the other end of a stream, or the author of an announcement. That peer is charged for the
// queue that the message takes, is blamed if the message is bad, and must have signed it. Deliver
// never blocks and keeps b.
func (d *Driver) Deliver(from slot.PeerID, b []byte) {
	if len(b) > slot.MaxMessage {
		d.verifier.blame.bad(from, fmt.Errorf("message of %d bytes: more than %d", len(b), slot.MaxMessage))
		return
	}
	d.inbox.put(from, b)
}

// Report takes a report of the worker or the node. It never blocks, and no report is lost while the
// driver works.
func (d *Driver) Report(r Report) { d.inputs.report(r) }

// Record is the certified record at a height of the current chain, from 1.
func (d *Driver) Record(height uint64) (wire.Commit, bool) {
	d.core.mu.Lock()
	defer d.core.mu.Unlock()
	return d.core.mu.machine.Record(height)
}

// Alone says whether no record that is known or signed here lists more than the founder, in the
// run's first slots. After Close that stays so.
func (d *Driver) Alone() bool {
	d.core.mu.Lock()
	defer d.core.mu.Unlock()
	return d.core.mu.machine.Alone()
}

// Access is what the newest certified record says of a peer. For no name it is the turn of
// rotations.
func (d *Driver) Access(p slot.PeerID) PeerAccess {
	d.core.mu.Lock()
	defer d.core.mu.Unlock()
	return d.core.mu.machine.Access(p)
}

// Incarnation is the incarnation that this peer's messages carry.
func (d *Driver) Incarnation() slot.Incarnation { return d.verifier.inc }

// View is what the peer knew and had saved after its newest inputs.
func (d *Driver) View() View {
	now, _ := d.views.get()
	return now
}

// WaitView waits until the view satisfies enough, and returns that view. It calls enough many
// times, from the caller's goroutine.
func (d *Driver) WaitView(ctx context.Context, enough func(View) bool) (View, error) {
	for {
		view, changed := d.views.get()
		if enough(view) {
			return view, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return view, ctx.Err()
		case <-d.done:
			if err := d.Err(); err != nil {
				return view, fmt.Errorf("%w: %w", errDriverClosed, err)
			}
			return view, errDriverClosed
		}
	}
}
