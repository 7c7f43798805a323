package p2pdiloco

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/node/admission"
	"github.com/p2pdiloco/p2pdiloco/internal/node/auditor"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/node/edge"
	"github.com/p2pdiloco/p2pdiloco/internal/node/formation"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/node/round"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/membership/store"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Node is one peer of a run. Run, Anchor, Sync, Begin and Finish are for one goroutine at a time;
// the rest may be called from any.
type Node struct {
	origin
	life   *round.Life
	shut   func() error        // closes, once
	api    func() http.Handler // one
	events *eventSink

	net       *p2p.Network
	guard     *admission.Guard // of a private run; nil for an open one
	gated     bool             // net has a gate of this node's
	formation *formation.Formation

	// All below is there once the run's spec is settled.
	spec    Spec
	run     Root
	timing  edge.Preset
	store   *store.File
	edge    *edge.Ledger
	ledger  *ledgerEvents
	driver  *membership.Driver
	motions *admission.Motions
	replica *replica.Replica
	auditor *auditor.Auditor
	rounds  *round.Loop
	claims  atomic.Pointer[Claims] // that this peer has made last
}

// origin is what a node starts from: its configuration, completed by what its data directory knows.
type origin struct {
	cfg         Config
	hooks       edge.Hooks
	dir         datadir.Dir
	known       *Spec                  // of the run, if this peer was in it before
	newcomer    bool                   // this start makes the peer's identity
	credentials *admission.Credentials // of a private run; nil for an open one
	first       edge.Preset            // that holds until the run's is known
}

// Round is a contribution that was offered and whose slot is not applied yet.
type Round struct{ begun *round.Round }

// Done is closed when Finish need not wait any more.
func (r *Round) Done() <-chan struct{} { return r.begun.Done() }

// Err is nil until Done is closed, then what Finish will return.
func (r *Round) Err() error { return r.begun.Err() }

// Finish waits until the slot is applied, with the contribution or without it, copies the new
// anchor into dst, and returns the number of outer steps in it. In an overlapped mode it waits for
// the slot before, copies where the next inner steps start, and counts the slot under way. It
// returns ErrRunEnded, with the last anchor in dst, after the last slot. When ctx ends first, its
// error is returned, and the round goes on: Finish may be called again.
//
// In mode streaming dst holds the live parameters, Task.Delay inner steps after Begin; the fragment
// of the slot lands in them, and the rest stays. Those of slots that were applied without this peer
// become the anchor's. After Anchor, a change of branch or the last slot all do. Task.Steps is then
// what is left to the next border.
func (r *Round) Finish(ctx context.Context, dst []float32) (slotNumber uint64, err error) {
	return r.begun.Finish(ctx, dst)
}

// Self is this peer's ID.
func (n *Node) Self() PeerID { return n.net.ID() }

// Addrs are the multiaddrs that this peer listens on, each ending in /p2p/ID: others may bootstrap
// from them.
func (n *Node) Addrs() []string { return n.net.Addrs() }

// Spec is the run's settled spec.
func (n *Node) Spec() Spec { return n.spec }

// RunID is the hash of the run's spec.
func (n *Node) RunID() Root { return n.run }

// Run drives Config.Trainer, round by round, until the run's last slot is applied and agreed (nil),
// ctx ends (its error), or the trainer fails. It leaves the node open: Leave or Close it.
func (n *Node) Run(ctx context.Context) error { return n.rounds.Run(ctx) }

// Anchor begins a caller's own training loop. It waits until this peer is a member and holds the
// state, copies the anchor, D elements, into dst, and returns the number of outer steps in it.
// From then on the others wait for this peer's contribution. After the run's end it returns
// ErrRunEnded, with the last anchor in dst.
//
// It may be called again: what was trained since is given up. If a contribution was offered,
// Anchor first waits until its slot is past.
func (n *Node) Anchor(ctx context.Context, dst []float32) (slotNumber uint64, err error) {
	return n.rounds.Anchor(ctx, dst)
}

// Sync is one round: it contributes the pseudo-gradient anchor - params, waits until the slot is
// agreed and applied, and overwrites params by the new anchor. params, D elements, must have grown
// from what Anchor, Sync or Finish left. weight is the number of tokens or samples processed. It
// returns ErrRunEnded, with the last anchor in params, after the last slot.
//
// When ctx ends first, the offer stands all the same. Anchor leads on; in mode sync, so does Sync
// with params that grew from the same anchor. It waits until the slot of that offer is past, and
// offers nothing more if it was applied: nothing counts twice, and what was trained since the offer
// is given up.
//
// In an overlapped mode it waits until the slot before is applied, and overwrites params by where
// the next inner steps start; with the last slot's contribution it waits for that slot, too.
//
// In mode streaming a round is what Task says: its steps to the next border, and the slot's
// fragment alone. Sync waits for it on the spot; Begin and Finish are for loops that train on
// meanwhile.
func (n *Node) Sync(ctx context.Context, params []float32, weight uint64) error {
	return n.rounds.Sync(ctx, params, weight)
}

// Begin is the first half of Sync, and does not wait: it takes the pseudo-gradient anchor - params
// and offers it. It does not keep params. If it returns ErrNotFinite, nothing was offered.
// Round.Finish is the second half. Except in mode streaming, Finish overwrites the parameters, so
// what is trained between the two is lost.
func (n *Node) Begin(params []float32, weight uint64) (*Round, error) {
	r, err := n.rounds.Begin(params, weight)
	if err != nil {
		return nil, err
	}
	return &Round{r}, nil
}

// Task returns the round of inner steps that starts from the newest anchor. ok is false before the
// first anchor.
func (n *Node) Task() (task Task, ok bool) { return n.rounds.Task() }

// Progress says how many inner steps of the round are done, and returns how far the run is with
// them: what a schedule of learning rates goes by, the same for a peer that joined late or came
// back. The others see by it that this peer is at work, and a run whose pace goes by speeds learns
// what the time of a round that is offered early was spent on. It may be called after every step,
// from any goroutine; it reports to the ledger a few times a second at most, and never before the
// first anchor.
func (n *Node) Progress(stepsDone int) Progress { return n.rounds.Progress(stepsDone) }

// Measured says how long the inner steps took that the next call of Sync or Begin contributes: the
// run's pace goes by it. Without it the node takes the time since the last of these calls
// returned. So a loop calls Measured where that is wrong: because it did something else meanwhile,
// or because it did another number of steps than Task.Steps and does not call Progress.
func (n *Node) Measured(steps int, took time.Duration) { n.rounds.Measured(steps, took) }

// Answer is what a model made of a prompt.
type Answer struct {
	Text string
	Slot uint64 // of the anchor that the model is
}

// Ask has Config.Trainer, a Sampler, go on with a prompt of at most trainer.MaxPrompt bytes. The
// model is that of the newest anchor. The answer comes between two rounds of Run, for which Ask
// waits until ctx ends; it takes one question at a time.
func (n *Node) Ask(ctx context.Context, prompt string) (Answer, error) {
	text, at, err := n.rounds.Ask(ctx, prompt)
	return Answer{text, at}, err
}

// Wait waits until the node is in a phase, such as PhaseRunning. Where the run has ended in another
// one, it returns ErrRunEnded or ErrMissed; where the node is closed, the reason; and the error of
// ctx where that ends first.
func (n *Node) Wait(ctx context.Context, p Phase) error {
	phase := func(v membership.View) Phase { is, _ := phaseOf(v, n.spec.StartPeers); return is }
	v, err := n.rounds.Wait(ctx, func(v membership.View) bool {
		is := phase(v)
		return is == p || is == PhaseEnded || is == PhaseEndedMissed
	})
	switch {
	case p == PhaseClosed && n.life.Over():
		return nil
	case err != nil:
		return err
	case phase(v) == p:
		return nil
	case phase(v) == PhaseEndedMissed:
		return ErrMissed
	}
	return ErrRunEnded
}

// Leave announces that this peer leaves, waits until the members have agreed to go on without it (a
// contribution already offered still counts), and closes the node. Without a quorum the members
// cannot agree to it: then Leave does not wait. ctx bounds the waiting.
func (n *Node) Leave(ctx context.Context) error {
	n.driver.Report(membership.ReportLeave{})
	v, err := n.rounds.Wait(ctx, func(v membership.View) bool {
		return v.Left || v.Done || v.Ending != membership.EndsNot || !v.IsMember || v.Paused
	})
	if err == nil && v.Paused {
		n.cfg.Logger.Warn("left without the others' agreement: too few of them are heard to agree on anything")
	}
	if at, held := n.replica.Position(); held && err == nil {
		n.cfg.Logger.Info("left the run", "slot", at.Slot, "state_root", at.Root)
		n.replica.Save()
	}
	return errors.Join(err, n.Close())
}

// Close stops the node at once, without notice: to the others it looks like a crash. It keeps the
// state that is held in a checkpoint, and waits for all that the node started.
func (n *Node) Close() error { return n.shut() }

// close stops the parts of the node, from the ledger down to the data directory.
func (n *Node) close() error {
	n.life.End()
	var errs []error
	if n.driver != nil {
		errs = append(errs, n.driver.Close())
	}
	if n.replica != nil {
		errs = append(errs, n.replica.Close(n.savesAtEnd()))
	}
	if n.edge != nil {
		n.edge.Close()
	}
	if n.net != nil && n.cfg.Network == nil {
		errs = append(errs, n.net.Close())
	}
	n.life.Wait()
	if n.gated { // nothing of this run's opens a stream any more
		n.net.LiftGate()
	}
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	if errors.Is(n.life.Err(nil), ErrGivenUp) && n.driver.Alone() { // else a peer joined meanwhile
		errs = append(errs, n.dir.GiveUp())
	}
	return errors.Join(append(errs, n.dir.Close())...)
}

// savesAtEnd says whether the state held gets a checkpoint at the end: the model of an ended run is
// then in one file, and a restart has little to do.
func (n *Node) savesAtEnd() bool { return !n.life.Failed() && !n.hooks.Abrupt && !n.dir.Temporary }

// Err says why the node has ended by itself: its identity is used twice, or its disk fails. That
// may be after Run has returned. It is nil while the node lives, and where it was closed.
func (n *Node) Err() error {
	if n.life.Failed() || !n.life.Over() && n.driver.Err() != nil {
		return n.ended()
	}
	return nil
}

// ended says why a closed node is closed: ErrClosed, and the fault that ended it, if one did.
func (n *Node) ended() error { return n.life.Err(n.driver.Err()) }

// emit passes an event on.
func (n *Node) emit(name string, fields map[string]any) { n.events.Emit(n.Self(), name, fields) }

// What the operator of a peer may ask for: an invitation, another set of members, and to go on
// without a quorum.

// Bounds on an invitation.
const (
	DefaultTTL = 7 * 24 * time.Hour
	MaxTTL     = ticket.MaxTTL

	ticketAddrs = 8 // addresses that a ticket made here has
)

// InviteOptions say what a ticket is good for. The zero value is the usual one.
type InviteOptions struct {
	TTL time.Duration // how long; default DefaultTTL, at most MaxTTL
	// newcomers that it admits to a private run; default 1. An open run admits everybody
	Uses int
}

// Invite makes a ticket for this run: a line of text that is all a newcomer needs (Config.Ticket).
// It pins the newest link that this peer knows (the newest record that is a fork or changed who
// votes, which peers keep for ever), and names several members, so that it outlives any one of
// them.
func (n *Node) Invite(ctx context.Context, o InviteOptions) (string, error) {
	if n.life.Over() {
		return "", n.ended()
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.TTL < time.Second || o.TTL > MaxTTL {
		return "", fmt.Errorf("a ticket for %v: allowed: 1s to %v", o.TTL, MaxTTL)
	}
	if o.Uses < 0 || o.Uses > ticket.MaxUses {
		return "", fmt.Errorf("a ticket for %d newcomers: allowed: 1 to %d", o.Uses, ticket.MaxUses)
	}
	if n.guard == nil && o.Uses != 0 {
		return "", errors.New("the run is open and admits everybody: uses are counted in private runs: leave out " +
			"how many (--uses)")
	}
	v := n.driver.View()
	if v.Tip.Height == 0 {
		return "", errors.New("there is no record to pin yet, for the run has not begun here: ask again in a moment")
	}
	members := slices.DeleteFunc(v.Peers(), func(p PeerID) bool { return p == n.Self() })
	t := ticket.Ticket{
		Run: n.spec.Name, RunID: n.run, Height: v.Tip.Height, Pin: v.Lasting,
		Expires: n.hooks.Now().Add(o.TTL).UTC().Truncate(time.Second),
		Addrs:   n.net.Contacts(append([]PeerID{n.Self()}, members...), ticketAddrs, ticket.Usable),
	}
	if len(t.Addrs) == 0 {
		return "", errors.New("no address is known under which others could find a peer of the run: give this one a " +
			"--listen address")
	}
	if n.guard != nil {
		var err error
		if t.Token, err = n.guard.NewToken(t.Expires, o.Uses); err != nil {
			return "", err
		}
	}
	return t.Encode()
}

// Remove asks the members to remove a peer from the run: it is no member any more and cannot become
// one. In a private run the admission secret changes with it, which voids the tickets given out so
// far. The removal happens once a quorum of the members, the peer itself counted, has asked for it.
func (n *Node) Remove(p PeerID) error {
	switch {
	case p == n.Self():
		return fmt.Errorf("%w: this is the peer itself: it can leave (stop its process)", ErrMotion)
	case len(p) < slot.MinPeerIDLen:
		return fmt.Errorf("%w: %q is no peer ID, like 12D3Koo…", ErrMotion, p)
	}
	return n.motions.Make(slot.Remove, p)
}

// Readmit takes back a removal that this peer has asked for, or asks the members to let a removed
// peer in again.
func (n *Node) Readmit(p PeerID) error { return n.motions.Make(slot.Readmit, p) }

// RotateSecret asks the members for another admission secret, which voids the tickets given out so
// far.
func (n *Node) RotateSecret() error {
	if n.guard == nil {
		return fmt.Errorf("%w: the run is open and has no admission secret to change: only a private one "+
			"has", ErrMotion)
	}
	return n.motions.Make(slot.Rotate, "")
}

// Recover lets this peer go on without a quorum: it forks the run at the newest record that it
// knows. Members that it hears come with it, if they were told to recover, too, or do so by
// themselves. If there are none, it goes alone. Recover does nothing once there is a quorum.
//
// What the others decide meanwhile is another branch. When the branches meet again, the one with
// more work wins; in a run of trust byzantine with four electors or more, a branch that a quorum
// decides wins whatever its work is. Such a run also takes more than half of the electors to
// recover, or half with the senior: with fewer, Recover returns ErrTooFew.
func (n *Node) Recover() error {
	switch v := n.driver.View(); {
	case v.Tip.Height == 0 || !v.NoQuorum:
		return ErrQuorum
	case v.TooFew:
		return fmt.Errorf("%w: %s", ErrTooFew, v.Reason)
	}
	n.driver.Report(membership.ReportRecover{})
	return nil
}
