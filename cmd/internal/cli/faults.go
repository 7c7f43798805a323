package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// flagError puts a flag's error in plain words.
func flagError(_ *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		f := invalid.GetFlag()
		return UsageError(sources.Faultf(f.Name, invalid.GetValue(), "%s", sources.Why(f, invalid.Unwrap())))
	}
	return UsageError(err)
}

// Args refuses more or fewer arguments than the command's Use has words after its name.
func Args(cmd *cobra.Command, args []string) error {
	if needed := len(strings.Fields(cmd.Use)) - 1; len(args) != needed {
		return UsageError(fmt.Errorf("arguments given: %d, needed: %d: %s %s", len(args), needed, cmd.Root().Name(),
			cmd.Use))
	}
	return nil
}

// NoArgs refuses arguments that are no flags.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return UsageError(fmt.Errorf("%s takes flags only, not %q", cmd.Name(), args[0]))
}
