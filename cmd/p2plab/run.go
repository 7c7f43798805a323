package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// output are the flags of the commands that start peers, and what is done by them.
type output struct {
	keepDir string
	json    bool
}

func (o *output) flags(fs *pflag.FlagSet, what string) {
	fs.BoolVar(&o.json, "json", false, "print one JSON document to stdout, everything else to stderr")
	o.addKeepDir(fs, what)
}

func (o *output) addKeepDir(fs *pflag.FlagSet, what string) {
	fs.StringVar(&o.keepDir, "keep-dir", "", "`folder` where "+what+" stay (default a temporary one, kept if "+
		"something failed)")
}

// run fills in s, calls do, and prints its result. What do had peers leave in a temporary folder is
// removed if all is well. do prints what is for people.
func (o *output) run(cmd *cobra.Command, s *lab.Setting,
	do func(context.Context) (result any, ok bool, err error),
) (err error) {
	s.Out = cli.Progress(cmd, o.json)
	if s.Executable, err = os.Executable(); err != nil {
		return err
	}
	var remove func() error
	if s.Dir, remove, err = cli.OpenDir(o.keepDir, "p2pdiloco-"+cmd.Name()+"-"); err != nil {
		return err
	}
	ctx, hurry, stop := cli.StopPeers(cmd.Context(), s.Out)
	defer stop()
	s.Hurry = hurry
	result, ok, err := do(ctx)
	switch {
	case ctx.Err() != nil:
		return errors.Join(cli.ErrInterrupted, remove())
	case errors.Is(err, lab.ErrNotRoot), errors.Is(err, errors.ErrUnsupported), errors.Is(err, exec.ErrNotFound):
		// nothing ran
		return errors.Join(err, remove())
	case err != nil:
		return fmt.Errorf("%w (logs are in %s)", err, s.Dir)
	}
	if o.json {
		if err := cli.PrintJSON(cmd.OutOrStdout(), result); err != nil {
			return err
		}
	}
	if !ok {
		return cli.ErrFailed
	}
	return remove()
}

// measure is run for a bench, whose report ends with a table, also if a part of it failed.
func (o *output) measure(cmd *cobra.Command, s *lab.Setting, do func(context.Context, *bench.Report) error) error {
	return o.run(cmd, s, func(ctx context.Context) (any, bool, error) {
		r := &bench.Report{Out: s.Out}
		err := do(ctx, r)
		r.Table()
		return nil, true, err
	})
}
