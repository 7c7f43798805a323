package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco/bridge/peer"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func TestEveryFlagIsASetting(t *testing.T) { clitest.FlagsAreSettings(t, newRoot) }

const (
	docs       = "../../docs/reference/settings.md"
	tableBegin = "<!-- settings: go test ./cmd/p2pdiloco -run TestDocs -update -->\n"
	tableEnd   = "<!-- /settings -->\n"
)

// TestDocs holds the table of settings in docs/reference/settings.md against the flags.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(docs)
	must(t, err)
	before, rest, begun := strings.Cut(string(text), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table", docs)
	}
	want := before + tableBegin + settingsTable() + tableEnd + after
	if *testutil.Update {
		must(t, os.WriteFile(docs, []byte(want), 0o644))
		return
	}
	if string(text) != want {
		t.Errorf("the table of settings in %s is not that of the flags: go test ./cmd/p2pdiloco -run TestDocs -update",
			docs)
	}
}

// settingsTable is a row for each key: those of join, which start has, too, in the help's order,
// then the other commands'.
func settingsTable() string {
	root := newRoot()
	rows, order := map[string]string{}, []string{}
	commands := map[string][]string{}
	list := clitest.Commands(root)
	slices.SortStableFunc(list, func(a, b *cobra.Command) int { return rank(a) - rank(b) })
	for _, cmd := range list {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || cmd.Name() == "start" {
				return
			}
			commands[f.Name] = append(commands[f.Name], strings.Join(clitest.Words(cmd), " "))
			if rows[f.Name] == "" {
				order = append(order, f.Name)
				_, usage := pflag.UnquoteUsage(f)
				if value := f.DefValue; !slices.Contains([]string{"", "[]", "0", "0s", "false"}, value) {
					usage += " (default " + value + ")"
				}
				rows[f.Name] = usage
			}
		})
	}
	var b strings.Builder
	b.WriteString("| in a file | commands, if not join alone | meaning, and default of the first command |\n" +
		"| --- | --- | --- |\n")
	for _, name := range order {
		of := strings.Join(commands[name], ", ")
		if of == "join" {
			of = ""
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", sources.Key(name), of, rows[name])
	}
	return b.String()
}

func rank(cmd *cobra.Command) int {
	if cmd.Name() == "join" {
		return 0
	}
	return 1
}

// TestExampleEnvironment: the settings that the systemd unit's example has are some.
func TestExampleEnvironment(t *testing.T) {
	text, err := os.ReadFile("../../examples/multihost/systemd/peer.env.example")
	must(t, err)
	var environ []string
	for l := range strings.Lines(string(text)) {
		if !strings.HasPrefix(l, "#") {
			environ = append(environ, strings.TrimSpace(l))
		}
	}
	s, fs := peer.NewSettings(), pflag.NewFlagSet("", pflag.ContinueOnError)
	s.Register(fs)
	if err := fs.Parse([]string{"--run", "books"}); err != nil {
		t.Fatal(err)
	}
	must(t, sources.Fill(fs, nil, sources.Environment(environ)))
	cfg, err := s.Config()
	set := 0
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			set++
		}
	})
	if err != nil || set != len(environ)+1 || len(cfg.Listen) != 2 || len(cfg.Bootstrap) != 1 {
		t.Errorf("%d of %d settings, %+v, %v", set, len(environ), cfg, err)
	}
}

// TestSourcesInErrors has commands other than join name the place that a wrong value came from.
func TestSourcesInErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.toml")
	if err := os.WriteFile(file, []byte("slot = 3\nseed = 0\nidentity = \"for bootstrap\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	clitest.NameTheirSources(t, newRoot, []clitest.Sourced{
		{"P2PDILOCO_PEERS=99", "demo", "P2PDILOCO_PEERS=99: allowed: 1 to 64"},
		{
			"P2PDILOCO_API=example.org:80", "status",
			"P2PDILOCO_API=example.org:80: the status API is for this machine only",
		},
		{"P2PDILOCO_API=example.org:80", "recover", "P2PDILOCO_API=example.org:80: the status API"},
		{"P2PDILOCO_LOG_LEVEL=loud", "bootstrap", "P2PDILOCO_LOG_LEVEL=loud: allowed: debug, info"},
		{
			"P2PDILOCO_SLOT=last", "export --data-dir d --out m",
			"P2PDILOCO_SLOT=last: allowed: a slot's number, or latest",
		},
		{"P2PDILOCO_ROUNDS=abc", "join --run x", "P2PDILOCO_ROUNDS=abc: allowed: a whole number"},
		{"P2PDILOCO_RUN=x", "join --rounds 0", "--rounds 0: empty or 0"},
		{"P2PDILOCO_CONFIG=" + file, "join --run x --api off", file + ": seed = 0: empty or 0"},
		{
			"P2PDILOCO_TRAINER=./none.so", "join --run x --api off --data-dir " + t.TempDir(),
			"P2PDILOCO_TRAINER=./none.so: ",
		},
	})
}
