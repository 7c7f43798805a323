package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// NewRoot completes a program's root command and adds its commands.
func NewRoot(root *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	root.Version = Version()
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetVersionTemplate(root.Name() + " {{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().String(sources.ConfigFlag, "", configUsage)
	root.PersistentFlags().Bool(helpAll, false, "help with all flags")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(commands...)
	return root
}

// version is set by builds without the repository's history, like the image's.
var version string

// Version is the version that the build recorded.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// goNames are the fields of Go's settings that errors of the library name beside a flag. Whoever
// types a command knows none of them.
var goNames = regexp.MustCompile(`raise Config\.\w+ or | \((?:Export)?Config\.\w+\)|, Config\.\w+`)

// lastWordsTime is how long a program's last line waits for a reader.
const lastWordsTime = 3 * time.Second

// Execute runs one command line and returns its exit status.
func Execute(root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	quietTransport()
	root.SetArgs(askHelp(root, args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	started := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		started = true
		return fill(cmd)
	}
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return ExitOK
	}
	code := ExitFailed
	if !started {
		code = ExitUsage // cobra refused the command line
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		code = exit.code
	}
	if err = spoken(err); err == nil {
		return code
	}
	text := goNames.ReplaceAllString(sources.Explain(cmd.Flags(), err).Error(), "")
	// Errors of the library begin with its name, which would stand here twice.
	text = strings.TrimPrefix(strings.TrimSpace(text), "p2pdiloco: ")
	text = fmt.Sprintf("%s: %s\n", root.Name(), text)
	if code == ExitUsage && !errors.Is(err, ErrNothingDone) {
		text += fmt.Sprintf("See '%s --help'.\n", cmd.CommandPath())
	}
	lastWords(stderr, text)
	return code
}

// lastWords prints why a command has failed. If nobody reads that, the program ends all the same.
func lastWords(stderr io.Writer, text string) {
	outlivePipes()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fmt.Fprint(stderr, text)
	}()
	awaitFor(lastWordsTime, done)
}

// quietTransport stops quic-go from printing its advice on kernel buffers in the middle of our
// output. To get the advice, set the variable to false.
func quietTransport() {
	const name = "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"
	if _, set := os.LookupEnv(name); !set {
		_ = os.Setenv(name, "true")
	}
}

const configUsage = "TOML `file` for flags that are not given, with _ for -: inner_steps = 100 for " +
	"--inner-steps. " +
	"In the environment that is P2PDILOCO_INNER_STEPS=100, which wins over the file"

// Known are the flags of a command and of those below it.
func Known(cmd *cobra.Command) sources.Known {
	known := sources.Known{}
	known.Add(cmd.Flags())
	known.Add(cmd.PersistentFlags())
	for _, below := range cmd.Commands() {
		maps.Copy(known, Known(below))
	}
	return known
}

// fill gives a command's flags that were not given the values of the environment and the config
// file. One file and one environment serve all commands, so both may hold flags of any of them.
func fill(cmd *cobra.Command) error {
	if cmd.Hidden { // cobra's own, and those that a program starts itself with all flags given
		return nil
	}
	if err := sources.Fill(cmd.Flags(), Known(cmd.Root()), sources.Environment(os.Environ())); err != nil {
		return UsageError(err)
	}
	return nil
}
