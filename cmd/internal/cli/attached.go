package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
)

// attached is where a trainer attaches, and the command that starts it. The methods of a nil one do
// nothing.
type attached struct {
	settings       *peer.Settings
	say            func(format string, args ...any)
	logger         *slog.Logger
	stdout, stderr io.Writer // of the command
	args           []string  // of the command; empty: none
	// stop ends the peer. It is called while the node does not call its trainer, too: as long as it
	// looks for the run, say.
	stop context.CancelCauseFunc

	server  *attach.Server
	listens atomic.Pointer[attach.Server] // the same, for state
	trainer *attach.Trainer
	command atomic.Pointer[command]
	watch   sync.WaitGroup
}

// open listens, starts the command, and waits for its processes to attach.
func (a *attached) open(ctx context.Context, cfg p2pdiloco.Config) (p2pdiloco.Trainer, error) {
	stays := a.settings.TrainerReturn
	if stays == 0 {
		stays = -1 // 0 is the default there
	}
	server, err := attach.Listen(attach.Config{
		DataDir: cfg.DataDir, Run: cfg.Spec.Name,
		Timeout: a.settings.TrainerTimeout, Return: stays,
		Notice: func(text string) { a.say("%s", text) }, Logger: a.logger,
	})
	if err != nil {
		return nil, err
	}
	a.server = server
	a.listens.Store(server)
	if len(a.args) > 0 {
		hungUp := func() { server.Leave("the terminal has hung up (SIGHUP)") }
		c, err := startCommand(a.args, server.Path(), a.stdout, a.stderr, hungUp, a.commandEnded)
		if err != nil {
			return nil, err
		}
		a.command.Store(c)
	} else {
		a.say("waiting for a trainer that attaches at %s (%s)", server.Path(), attach.Variable)
	}
	if os.Getenv(starter) != "" {
		go a.watchStarter()
	}
	if a.trainer, err = server.Trainer(ctx); err != nil {
		if errors.Is(err, attach.ErrLeave) {
			err = errors.New("the trainer has ended before all of its processes attached to the node: does it use " +
				"p2pdiloco, on every rank?")
		}
		return nil, err
	}
	a.watch.Go(func() {
		<-server.Done()
		a.stop(server.Err())
	})
	return a.trainer, nil
}

// starter is a variable that says that standard input ends when the trainer does that has started
// this node.
const starter = "P2PDILOCO_STARTER"

// watchStarter ends the node if its trainer ends before all of its processes have attached. Later
// it stays for another trainer. It reads until the program ends.
func (a *attached) watchStarter() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	if !a.server.Came() {
		a.server.Leave("the trainer that has started the node has ended")
	}
}

// state says for the status how far the trainer is.
func (a *attached) state() string {
	if a == nil {
		return ""
	}
	if s := a.listens.Load(); s != nil {
		return s.State()
	}
	return ""
}

// commandEnded is called when the command has ended.
func (a *attached) commandEnded(err error) {
	switch {
	case err == nil:
		a.server.Leave("the command has ended")
	case !a.server.Came():
		a.server.Leave(fmt.Sprintf("the command has failed: %v", err))
	case a.command.Load().wasSignaled(): // the peer leaves, too
	default:
		a.say("the command has failed (%v); a trainer may attach at %s (%s)", err, a.server.Path(), attach.Variable)
	}
}

// joined tells the trainer which run this is.
func (a *attached) joined(node *p2pdiloco.Node) {
	if a != nil {
		a.trainer.Joined(info(node))
	}
}

// info is what the trainer is told of the run.
func info(node *p2pdiloco.Node) wire.Info {
	s := node.Spec()
	text, err := json.Marshal(node.Status().Spec)
	if err != nil {
		text = nil // it is for show
	}
	return wire.Info{
		RunID: node.RunID().String(), Peer: node.Self().String(), Mode: s.Mode, InnerSteps: s.InnerSteps,
		LastSlot: s.LastSlot(), Spec: string(text),
	}
}

// ended tells the trainer how it ended for the node, whose Run has returned err, and returns that,
// or nil if the trainer has asked for the end.
func (a *attached) ended(ctx context.Context, node *p2pdiloco.Node, err error) error {
	switch {
	case a == nil:
	case errors.Is(err, attach.ErrLeave):
		return nil
	case err == nil:
		last := info(node)
		last.Slot, last.Root = node.Status().Slot, node.Status().StateRoot.String()
		a.trainer.Joined(last)
		text := "the run has ended; its final model is loaded"
		if node.Status().Phase == p2pdiloco.PhaseEndedProvisional {
			text = "this branch, which may not be the run's, has ended; its last model is loaded (p2pdiloco status)"
		}
		a.server.End(wire.CodeEnded, text)
	case errors.Is(err, p2pdiloco.ErrMissed):
		a.server.End(wire.CodeMissed, err.Error())
	case ctx.Err() != nil:
		a.server.End(wire.CodeClosed, "the node was asked to leave the run")
	default:
		a.server.End(wire.CodeClosed, fmt.Sprintf("the node has ended: %v", err))
	}
	return err
}

// told shows a line to the trainer. A command whose output is this process's gets warnings alone:
// the others stand there already.
func (a *attached) told(level uint64, line string) {
	if a == nil || len(a.args) > 0 && level == wire.NoticeInfo {
		return
	}
	if server := a.listens.Load(); server != nil {
		server.Notify(level, line)
	}
}

// close ends what open has begun, when the peer has ended, with err.
func (a *attached) close(err error) error {
	if a.server == nil {
		return nil
	}
	if err != nil && !errors.Is(err, ErrProvisional) {
		a.server.End(wire.CodeClosed, fmt.Sprintf("the node has ended: %v", err))
	}
	command := a.command.Load()
	if command.runs() {
		a.say("waiting for the command to end; a signal is passed on to it")
	}
	failed := command.wait(err != nil)
	failed = errors.Join(failed, a.server.Close())
	a.watch.Wait()
	return failed
}

// kill ends the command at once.
func (a *attached) kill() {
	if a != nil {
		a.command.Load().kill()
	}
}
