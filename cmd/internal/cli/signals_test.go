//go:build unix

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
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
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("the tests run under nohup: no program gets this signal")
	}
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

// A command that fails when the reader of its stderr has ended ends with the status that is
// documented, whether it waited for signals or not. SIGPIPE ended it, at what it printed between
// the end of that and its last line, or at that line.
func TestAFailureThatNobodyReadsHasItsStatus(t *testing.T) {
	const how = "P2PDILOCO_TEST_UNREAD"
	run := map[string]func(cmd *cobra.Command){
		"no signals": func(*cobra.Command) {},
		"signals": func(cmd *cobra.Command) {
			_, stop := UntilSignal(cmd.Context(), func() {}, func() {})
			stop()
			fmt.Fprintln(cmd.ErrOrStderr(), "the report of the end")
		},
	}
	if act := run[os.Getenv(how)]; act != nil { // this is the process below
		_ = os.Unsetenv(how)
		os.Exit(Execute(NewRoot(&cobra.Command{Use: "p", RunE: func(cmd *cobra.Command, _ []string) error {
			act(cmd)
			return UsageError(errors.New("no"))
		}}), nil, os.Stdout, os.Stderr))
	}
	for name := range run {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		p := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$") //nolint:gosec // this test
		p.Env, p.Stderr = append(os.Environ(), how+"="+name), w
		_ = p.Run()
		_ = w.Close()
		if code := p.ProcessState.ExitCode(); code != ExitUsage {
			t.Errorf("%s: %s", name, p.ProcessState)
		}
	}
}
