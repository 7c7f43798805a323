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
