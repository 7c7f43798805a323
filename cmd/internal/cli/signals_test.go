//go:build unix

package cli

import (
	"os"
	"syscall"
	"testing"
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
