package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
)

// folderPrefix begins the name of a Hugging Face folder (p2pdiloco.Config.InitFile).
const folderPrefix = "hf:"

// initFlags are the command line of init.
type initFlags struct {
	out   string
	force bool
	json  bool
}

func newInit() *cobra.Command {
	f := &initFlags{}
	cmd := &cobra.Command{
		Use:   "init hf:FOLDER [--out MODEL.safetensors]",
		Short: "Check a Hugging Face folder that a run is to begin with",
		Long: `Check a Hugging Face folder that a run is to begin with: config.json, the index, and the weights
(safetensors in F32, BF16 or F16). It says what a run would begin with; 'p2pdiloco join --init hf:FOLDER' founds
one from it.

With --out it writes the weights to one file, in float32 and with tied matrices once, which is what the other
founders need: 'p2pdiloco join --init MODEL.safetensors' begins with the same model.`,
		Example: `  p2pdiloco init hf:gpt2
  p2pdiloco init hf:gpt2 --out gpt2.safetensors`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 1:
				return cli.UsageError(fmt.Errorf("init takes one folder: p2pdiloco init hf:FOLDER (%d were given)",
					len(args)))
			case !strings.HasPrefix(args[0], folderPrefix):
				return cli.UsageError(fmt.Errorf("%s: write hf:%s, a folder that save_pretrained() wrote", args[0],
					args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := cli.OrExit(cmd.Context())
			defer stop()
			err := f.run(ctx, strings.TrimPrefix(args[0], folderPrefix), cmd.OutOrStdout())
			return cli.Interrupted(ctx, err)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.out, "out", "", "`file` to write, in float32")
	fs.BoolVar(&f.force, "force", false, "replace the file if it exists")
	fs.BoolVar(&f.json, "json", false, "print what was found as JSON")
	return cmd
}

func (f *initFlags) run(ctx context.Context, folder string, out io.Writer) error {
	m, err := p2pdiloco.Import(ctx, folder, f.out, f.force)
	if err != nil {
		return err
	}
	if f.json {
		return json.NewEncoder(out).Encode(m)
	}
	tied := ""
	if m.Tied > 0 {
		tied = fmt.Sprintf(" (%d more are tied)", m.Tied)
	}
	_, err = fmt.Fprintf(out, "%s: a model of type %q, %d parameters in %d tensors%s, stored as %s\n",
		folder, m.ModelType, m.Elements, m.Tensors, tied, strings.Join(m.DTypes, ", "))
	if err == nil && f.out != "" {
		_, err = fmt.Fprintf(out, "%s: the same in float32; begin a run with it: p2pdiloco join --init %s\n",
			f.out, f.out)
	}
	return err
}
