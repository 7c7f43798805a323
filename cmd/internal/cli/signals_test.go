//go:build unix

package cli

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestSecondSignal(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	ctx, stop := UntilSignal(t.Context(), func() { close(first) }, func() { close(second) })
	for _, then := range []chan struct{}{first, second} {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-then
	}
	<-ctx.Done()
	stop()
}

// What is printed at the first signal may have no reader. The command ends all the same, and the
// second signal is heard.
func TestASignalWaitsForNoOutput(t *testing.T) {
	blocked, second := make(chan struct{}), make(chan struct{})
	ctx, stop := UntilSignal(t.Context(), func() { <-blocked }, func() { close(second) })
	for _, then := range []<-chan struct{}{ctx.Done(), second} {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-then:
		case <-time.After(20 * time.Second):
			t.Error("a signal was not heard")
		}
	}
	stop() // it waits for a moment only
	close(blocked)
}

// A terminal that is closed sends SIGHUP, from the shell and from the system: both ask once for an
// orderly end.
func TestAHangUpAsksForAnEndOnce(t *testing.T) {
	ctx, stop := UntilSignal(t.Context(), func() {}, func() { t.Error("the second one") })
	for range 2 {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		<-ctx.Done()
	}
	time.Sleep(50 * time.Millisecond) // for the second one to be seen
	stop()
}
