package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// helpAll asks for the help with all flags. It is a flag that no setting stands for.
const helpAll = "help-all"

// HelpGroup is a title and what most people need of a command's flags: pairs of what is typed and
// what it means.
type HelpGroup struct {
	Title string
	Lines [][2]string
}

// ShortHelp makes --help of a command show these groups; --help-all shows all flags.
func ShortHelp(cmd *cobra.Command, groups ...HelpGroup) {
	all := cmd.HelpFunc()
	cmd.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.Root().Annotations[helpAll] != "" {
			all(cmd, args)
			return
		}
		printShort(cmd.OutOrStdout(), cmd, groups)
	})
}

func printShort(out io.Writer, cmd *cobra.Command, groups []HelpGroup) {
	fmt.Fprintf(out, "%s.\n\n%s\n\n", cmd.Short, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	defer w.Flush()
	for _, g := range groups {
		title := g.Title
		for _, line := range g.Lines {
			fmt.Fprintf(w, "%s\t%s\t%s\n", title, line[0], line[1])
			title = ""
		}
	}
	fmt.Fprintf(w, "More\t--config file\tTOML file for flags, as inner_steps = 100; in the environment "+
		"P2PDILOCO_INNER_STEPS=100\n\t--%s\tall flags, examples, and what happens at the end\n", helpAll)
}

// askHelp takes --help-all before a -- as --help, which then shows everything.
func askHelp(root *cobra.Command, args []string) []string {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	at := slices.Index(args[:end], "--"+helpAll)
	if at < 0 {
		return args
	}
	root.Annotations = map[string]string{helpAll: "yes"}
	return slices.Concat(args[:at], []string{"--help"}, args[at+1:])
}
