package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/view/document"
)

// leaveTimeout bounds a graceful leave. It is enough for the others to finish a round with this
// peer's contribution.
const leaveTimeout = 2 * time.Minute

// launch is what a join was started with, besides its settings.
type launch struct {
	command   []string // that starts a trainer which attaches; empty: none
	starts    bool     // it was told to found the run
	servePage ServePage
}

// participant is one running join: a peer, and its output.
type participant struct {
	launch
	settings       *peer.Settings
	stdout, stderr io.Writer // for processes that it starts
	output
	began time.Time

	spec     p2pdiloco.Spec // as it was given
	isIn     bool           // it has become a member, since its start
	endPage  func() error   // nil: the page is not served
	trainer  p2pdiloco.Trainer
	attached *attached // where the trainer attaches
	collect  collector
	narrator narrator
}

func newParticipant(cmd *cobra.Command, s *peer.Settings, l launch) *participant {
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	p := &participant{
		launch: l, settings: s, stdout: stdout, stderr: stderr, output: newOutput(stdout, stderr),
		began: time.Now(),
	}
	p.narrator.tell, p.narrator.slots = p.tell, make(chan struct{}, 1)
	return p
}

// say prints a line for people, unless the peer is to be quiet. It does not wait.
func (p *participant) say(format string, args ...any) {
	p.tell(wire.NoticeInfo, fmt.Sprintf(format, args...))
}

// tell prints a line on stderr, and passes it on to a trainer that attaches. Warnings are printed
// by a quiet peer, too.
func (p *participant) tell(level uint64, line string) {
	p.narrator.said.Store(time.Now().UnixNano())
	if level != wire.NoticeInfo || !p.settings.Quiet {
		fmt.Fprintln(p.errs, line)
	}
	p.attached.told(level, line)
}

// run joins, trains to the end or to the first signal, and sums up.
func (p *participant) run(ctx context.Context) error {
	err := p.peer(ctx)
	if errors.Is(err, p2pdiloco.ErrOtherRun) {
		err = OtherRun(err)
	}
	if p.endPage != nil {
		err = errors.Join(err, p.endPage())
	}
	if unread := p.end(outputTime); unread != nil && p.settings.JSON {
		err = errors.Join(err, fmt.Errorf("the report was not written: %w", unread))
	}
	return err
}

func (p *participant) peer(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	if p.settings.Trainer == peer.TrainerAttach {
		p.attached = &attached{
			settings: p.settings, say: p.say, stdout: p.stdout, stderr: p.stderr, args: p.command, stop: end,
			logger: p.settings.LogLevel.Logger(p.errs),
		}
	}
	ctx, stop := UntilSignal(ctx,
		func() { p.say("leaving the run; Ctrl-C again stops at once") },
		func() {
			p.attached.kill()
			_ = p.end(hurryTime)
			os.Exit(ExitInterrupted)
		})
	defer stop()
	p.say("%s", message("start", fields{"run": p.spec.Name}))
	if os.Getpid() == 1 {
		p.say("note: this process is the first of its container, and processes that lose their parents stay there as " +
			"zombies: if the trainer starts processes, run this one under an init (docker run --init)")
	}
	err := p.live(ctx)
	for ctx.Err() == nil && errors.Is(err, p2pdiloco.ErrGivenUp) {
		p.tell(wire.NoticeWarn, message("given up", fields{"detail": err.Error()}))
		err = p.live(ctx)
	}
	return errors.Join(err, p.closeTrainer(err))
}

// live is the peer's life in one run. The trainer outlives it.
func (p *participant) live(ctx context.Context) error {
	p.isIn, p.narrator.mu.last = false, p2pdiloco.Status{}
	var watching sync.WaitGroup
	watched, unwatch := context.WithCancel(context.WithoutCancel(ctx)) // leaving takes time, too
	watching.Go(func() { watchStandstill(watched, p.say) })
	defer watching.Wait()
	defer unwatch()
	joined, err := peer.Open(ctx, p.settings, p.options())
	if errors.Is(err, peer.ErrInvalid) {
		return UsageError(err)
	}
	if err != nil {
		return err
	}
	p.settings.DataDir = joined.Dir() // in the next life, too
	if err := p.openPage(ctx); err != nil {
		return errors.Join(err, joined.Close())
	}
	p.narrator.status, p.narrator.trainer = joined.Status, p.attached.state
	watching.Go(func() { p.narrator.run(watched) })
	if to := p.settings.Track; to != "" {
		watching.Go(func() {
			file := filepath.Join(joined.Dir(), datadir.MetricsFile)
			if err := document.FollowMetrics(watched, file, to); err != nil {
				p.tell(wire.NoticeWarn, fmt.Sprintf("slots are not tracked any more: %v", err))
			}
		})
	}
	return p.takePart(ctx, joined)
}

// openPage serves the page of the run, if that is wanted and not done yet. Trainers are not told
// where: it stands there with its key.
func (p *participant) openPage(ctx context.Context) (err error) {
	if p.settings.Dashboard != "" && p.endPage == nil {
		p.endPage, err = p.servePage(context.WithoutCancel(ctx), p.errs, p.settings.DataDir, p.settings.Dashboard)
	}
	return err
}

func (p *participant) options() peer.Options {
	o := peer.Options{
		OnEvent: p.onEvent,
		Notice:  func(text string) { p.tell(wire.NoticeWarn, text) },
		Logger:  p.settings.LogLevel.Logger(p.errs),
	}
	if p.attached != nil {
		o.TrainerState = p.attached.state
	}
	if p.settings.Trainer != peer.TrainerNone {
		o.Trainer = func(ctx context.Context, cfg p2pdiloco.Config) (_ p2pdiloco.Trainer, err error) {
			if p.trainer == nil {
				p.trainer, err = p.newTrainer(ctx, cfg)
			}
			return p.trainer, err
		}
	}
	return o
}

// takePart runs the node and ends the peer, also after an error.
func (p *participant) takePart(ctx context.Context, joined *peer.Peer) error {
	node, err := joined.Node(ctx)
	if err != nil { // before the run was found there is nobody to announce the end to
		return errors.Join(unlessAsked(ctx, err), joined.Close())
	}
	p.say("%s", message("known", fields{"run": node.Spec().Name, "run_id": longer(node.RunID().String())}))
	if p.starts {
		inviting, stop := context.WithCancel(ctx)
		defer stop()
		go p.invite(inviting, node)
	}
	p.attached.joined(node)
	err = runToEnd(ctx, node, p.looks)
	if errors.Is(err, p2pdiloco.ErrGivenUp) {
		return errors.Join(unlessAsked(ctx, err), joined.Close())
	}
	p.narrator.slot()
	err = p.attached.ended(ctx, node, err)
	if err == nil && p.settings.Stays() {
		err = serveOn(ctx, node)
	}
	return errors.Join(unlessAsked(ctx, err), p.finish(joined, node))
}

// looks says whether this peer goes on looking for the run's final model after an error of Run: one
// that stays does so where nobody answers that holds the model.
func (p *participant) looks(err error) bool {
	if p.settings.Stays() {
		p.say("%v. This peer goes on looking", err)
	}
	return p.settings.Stays()
}

// unlessAsked is err, or nil if the user or the trainer has asked to leave.
func unlessAsked(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, attach.ErrNoReturn) {
		return cause
	}
	return nil
}

// leaver is a peer that can be ended.
type leaver interface {
	Leave(ctx context.Context) error
	Close() error
}

// finish leaves the run, or closes the peer if the run has ended, and prints the report.
func (p *participant) finish(joined leaver, node endless) error {
	last := node.Status()
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	// it closed by itself, and the error of Run says why
	leave, failed := joined.Leave, last.Phase == p2pdiloco.PhaseClosed
	if ended(last.Phase) || failed {
		leave = func(context.Context) error { return joined.Close() }
	}
	err := leave(ctx)
	if now := node.Status(); now.Slot > last.Slot {
		now.Phase = last.Phase
		last = now // a contribution that was offered still counted
	}
	if !failed { // the closing record may have come while this peer left
		last.Phase = p.collect.latestPhase(last.Phase)
	}
	r := p.collect.sumUp(last, time.Since(p.began))
	switch {
	case last.Phase == p2pdiloco.PhaseEndedProvisional && err == nil:
		err = ErrProvisional
	case last.Phase == p2pdiloco.PhaseEndedMissed && err == nil && p.settings.Stays():
		err = p2pdiloco.ErrMissed // stopped while it looked
	}
	if p.settings.JSON {
		return errors.Join(err, json.NewEncoder(p.out).Encode(r))
	}
	if !failed {
		p.say("%s", closing(r))
	}
	return err
}

// closeTrainer closes a trainer with a method Close. The peer has ended.
func (p *participant) closeTrainer(err error) error {
	if p.attached != nil {
		return p.attached.close(err)
	}
	if c, ok := p.trainer.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// onEvent is called by the node, one event at a time.
func (p *participant) onEvent(e p2pdiloco.Event) {
	p.collect.observe(e)
	if e.Name == "trainer.stats" || e.Name == "slot.applied" && p.trainer == nil {
		select {
		case p.narrator.slots <- struct{}{}:
		default: // it is told of both at once
		}
	}
	level := uint64(wire.NoticeInfo)
	if isGrave(e) {
		level = wire.NoticeWarn
	}
	p.isIn = p.isIn || e.Name == "run.joined" || e.Name == "run.founded"
	if line := describe(e, p.collect.dataDir()); line != "" && (p.isIn || !isOld(e)) {
		p.tell(level, line)
	}
	if e.Name == "run.founded" {
		warnTrim(p.spec, p.say)
	}
	if e.Name == "run.final" && e.Fields["ends_as"] != "branch" && p.settings.Stays() {
		p.say("%s", messages["run.final/stays"])
	}
}

// inviteAgain is how often a peer looks whether its run has a record that a ticket can name.
const inviteAgain = 250 * time.Millisecond

// invite prints, once the run has begun here, a ticket and what to do next.
func (p *participant) invite(ctx context.Context, node *p2pdiloco.Node) {
	for {
		ticket, err := node.Invite(ctx, p2pdiloco.InviteOptions{})
		if err == nil {
			f := fields{"ticket": ticket, "data_dir": Quote(p.collect.dataDir())}
			if node.Spec().Access == p2pdiloco.AccessPrivate {
				f["private"] = messages["ticket/private"]
			}
			p.say("%s", message("ticket", f))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(inviteAgain):
		}
	}
}
