package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// UntilSignal returns a context that ends with the first SIGINT or SIGTERM, or SIGHUP, which a
// terminal sends that is closed. It calls first at that moment, and second at the next signal, even
// if first has not returned: what it prints may have no reader. A hang-up is never the second one,
// as a shell and the system send it both. Until stop, an output whose reader has ended (SIGPIPE) is
// an error of the write and does not end the process. stop gives the signals back and waits for the
// watcher, and a moment for first.
func UntilSignal(ctx context.Context, first, second func()) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals, pipes := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(signals, endings()...)
	signal.Notify(pipes, syscall.SIGPIPE) // nobody reads it, and no child inherits this
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
		signal.Stop(pipes)
		close(quit)
		<-done
		awaitFor(time.Second, told)
		cancel()
	}
}

// endings are the signals that ask a command to end. One that was started with nohup outlives its
// terminal.
func endings() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// awaitFor waits until done is closed, but for no longer than that.
func awaitFor(patience time.Duration, done <-chan struct{}) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
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
