package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// exportFlags are the command line of export.
type exportFlags struct {
	cfg      p2pdiloco.ExportConfig
	json     bool
	logLevel peer.LogLevel
}

const latest = "latest"

// readSlot reads the number of a slot; nil is the latest.
func readSlot(text string) (*uint64, error) {
	if text == latest {
		return nil, nil //nolint:nilnil // the latest
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, errors.New("allowed: a slot's number, or latest")
	}
	return &n, nil
}

func showSlot(n *uint64) string {
	if n == nil {
		return latest
	}
	return strconv.FormatUint(*n, 10)
}

func newExport() *cobra.Command {
	f := &exportFlags{logLevel: "warn"}
	cmd := &cobra.Command{
		Use:   "export --out MODEL.safetensors",
		Short: "Write a peer's model to a .safetensors file",
		Long: `Write the model that a peer holds to a .safetensors file, which Python's safetensors package and
'p2pdiloco join --init' read.
The peer may be running: its data directory is only read.

It starts from the newest certified checkpoint on disk, applies the outcomes that follow up to the wanted
slot, and compares each state with its certified root.`,
		Example: `  p2pdiloco export --out model.safetensors
  p2pdiloco export --data-dir ~/run1 --out model.safetensors`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.cfg.DataDir, "data-dir", "", "data `directory` of a peer (default: that of the one peer that "+
		"runs here, else the only one that was in a run)")
	fs.StringVar(&f.cfg.Out, "out", "", "`file` to write, in float32")
	fs.Var(
		sources.Var(&f.cfg.Slot, "slot", readSlot, showSlot),
		"slot",
		"which slot's model: a number, or latest (what is on disk: one checkpoint or more, and "+
			"the slots since)",
	)
	fs.BoolVar(&f.cfg.Force, "force", false, "replace the file if it exists, and write a model "+
		"that holds NaN or infinity, too")
	fs.BoolVar(&f.json, "json", false, "print what was written as JSON")
	fs.Var(f.logLevel.Flag(), "log-level", peer.LogLevelUsage)
	return cmd
}

func (f *exportFlags) run(cmd *cobra.Command) error {
	if f.cfg.Out == "" {
		return cli.UsageError(errors.New("no file is named: give --out MODEL.safetensors"))
	}
	f.cfg.Logger = f.logLevel.Logger(cmd.ErrOrStderr())
	ctx, stop := cli.OrExit(cmd.Context())
	defer stop()
	if f.cfg.DataDir == "" {
		var err error
		if f.cfg.DataDir, err = onlyDir(ctx); err != nil {
			return err
		}
	}
	e, err := p2pdiloco.Export(ctx, f.cfg)
	if err != nil {
		return cli.Interrupted(ctx, err)
	}
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(e)
	}
	certified := "certified"
	if !e.Certified {
		certified = "agreed; no later record certifies it yet"
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: the model of run %s after slot %d, %d parameters in %d "+
		"tensors, without what a module keeps in buffers\nstate root %s (%s)\n",
		f.cfg.Out, e.Run, e.Slot, e.Elements, e.Tensors, e.StateRoot, certified)
	return err
}
