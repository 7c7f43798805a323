package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// UntilSignal returns a context that ends with the first SIGINT or SIGTERM, or SIGHUP, which a
// terminal sends that is closed. It calls first at that moment, and second at the next signal, even
// if first has not returned: what it prints may have no reader. A hang-up is never the second one,
// as a shell and the system send it both. From then on, an output whose reader has ended is an
// error of the write (outlivePipes). stop gives the signals back and waits for the watcher, and a
// moment for first.
func UntilSignal(ctx context.Context, first, second func()) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, andHangUp(os.Interrupt, syscall.SIGTERM)...) // they ask a command to end
	outlivePipes()
	quit, done, told := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-signals:
		case <-quit:
			close(told)
			return
		}
		cancel()
		go func() {
			defer close(told)
			first()
		}()
		for {
			select {
			case s := <-signals:
				if s != syscall.SIGHUP {
					second()
					return
				}
			case <-quit:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(quit)
		<-done
		awaitFor(time.Second, told)
		cancel()
	}
}

// outlivePipes makes an output whose reader has ended (SIGPIPE) an error of the write for the rest
// of the process: it would end it with a status of its own, also while it prints its last lines.
var outlivePipes = sync.OnceFunc(func() {
	// nobody reads it, and no child inherits this
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
})

// andHangUp adds SIGHUP to some signals. A command that was started with nohup outlives its
// terminal.
func andHangUp(all ...os.Signal) []os.Signal {
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// awaitFor waits until done is closed, but for no longer than that.
func awaitFor(patience time.Duration, done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(patience):
	}
}

// OrExit is UntilSignal for a command that ends quickly once ctx does. A second signal ends the
// process.
func OrExit(ctx context.Context) (_ context.Context, stop func()) {
	return UntilSignal(ctx, func() {}, func() { os.Exit(ExitInterrupted) })
}

// StopPeers is UntilSignal for a command that has started peers. The first signal ends ctx, and
// hurry is closed at the second: the peers are killed then.
func StopPeers(ctx context.Context, out io.Writer) (_ context.Context, hurry <-chan struct{}, stop func()) {
	kill := make(chan struct{})
	ctx, stop = UntilSignal(ctx,
		func() { fmt.Fprintln(out, "\nstopping all peers (once more to kill them)") },
		func() { close(kill) })
	return ctx, kill, stop
}
