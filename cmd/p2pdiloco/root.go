package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Exit statuses, as docs/operations.md lists them.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // as shells say of a program that SIGINT ended
)

// exitError is an error with an exit status of its own. A nil err says nothing more: the command has said it.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError marks a command line that cannot be obeyed.
func usageError(err error) error { return &exitError{exitUsage, err} }

// execute runs one command line and returns its exit status.
func execute(args []string, stdout, stderr io.Writer) int {
	quietTransport()
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	started := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		started = true
		return fill(cmd, stderr)
	}
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return exitOK
	}
	code := exitFailed
	if !started {
		code = exitUsage // cobra refused the command line
	}
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	if exit == nil || exit.err != nil {
		err = sources.Explain(cmd.Flags(), err)
		const name = "p2pdiloco: " // errors of the library begin so, too
		fmt.Fprintf(stderr, name+"%s\n", strings.TrimPrefix(strings.TrimSpace(err.Error()), name))
	}
	if code == exitUsage {
		fmt.Fprintf(stderr, "See '%s --help'.\n", cmd.CommandPath())
	}
	return code
}

// quietTransport stops quic-go from printing its advice on kernel buffers in the middle of our output. Who wants it sets
// the variable to false.
func quietTransport() {
	const name = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"
	if _, set := os.LookupEnv(name); !set {
		_ = os.Setenv(name, "true")
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "p2pdiloco",
		Short: "Train one model together, peer to peer, with no server in the middle",
		Long: `p2pdiloco trains one model on many machines that only talk now and then (DiLoCo). Every peer
trains alone for some steps; then the peers combine what they learnt, agree on the result, and
all hold the identical model. Peers come and go at any time; there is no server.

See it work on this machine:
  p2pdiloco demo

Start a run by hand, in two terminals of one machine or on two machines of one network:
  p2pdiloco join --run my-run --start-peers 2`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("p2pdiloco {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().String(sources.ConfigFlag, "", configUsage)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(newDemo(), newChaos(), newBench(), newJoin(), newInvite(), newBootstrap(), newStatus(), newDoctor(), newRecover(), newRemove(), newReadmit(), newRotate(), newExport(), newTrainerCheck(), newVersion(), newBenchPeer())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of the program, its protocol and its arithmetic",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "p2pdiloco %s, protocol %s, kernel %s\n",
				version(), p2pdiloco.ProtocolVersion, p2pdiloco.KernelVersion)
			return err
		},
	}
}

// version is what the build says of itself.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// noArgs refuses arguments that are no flags.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError(fmt.Errorf("%s takes flags only, not %q", cmd.CommandPath(), args[0]))
}
