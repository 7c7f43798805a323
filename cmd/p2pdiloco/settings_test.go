package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/settings"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// sample is a value that a flag may have and by default has not.
func sample(f *pflag.Flag) string {
	if v, ok := map[string]string{
		"mode": "eager", "pace": "dylu", "on-quorum-loss": "pause", "preset": "lan", "trainer": "./t.so", "model": "layers=2", "aggregator": "median", "log-level": "error", "slot": "7", "rate": "20mbit", "seeds": "5",
		"pin":   p2pdiloco.Root{1}.String(),
		"codec": "int4", "max-upload": "20mbit", "max-download": "20mbit", "ttl": "3d", "size": "3KiB", "relay-rate": "20mbit", "relay-total": "20mbit",
	}[f.Name]; ok {
		return v
	}
	if f.DefValue == "true" {
		return "false"
	}
	if v, ok := map[string]string{"bool": "true", "int": "3", "int64": "3", "uint64": "3", "float64": "3", "duration": "3s", "string": "text", "addresses": "/a", "peers": "p", "paths": "a b"}[f.Value.Type()]; ok {
		return v
	}
	return "no sample of " + f.Value.Type()
}

// eachFlag calls f for every flag of every command that is not cobra's own, with a fresh command each time.
func eachFlag(t *testing.T, f func(t *testing.T, cmd *cobra.Command, flag *pflag.Flag)) {
	for _, like := range commandsOf(newRoot()) {
		var names []string
		like.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		for _, name := range names {
			cmd, _, err := newRoot().Find(words(like))
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.ParseFlags(nil); err != nil {
				t.Fatal(err)
			}
			t.Run(strings.Join(words(cmd), " ")+" --"+name, func(t *testing.T) { f(t, cmd, cmd.Flags().Lookup(name)) })
		}
	}
}

// words is a command's words below the root.
func words(cmd *cobra.Command) []string { return strings.Fields(cmd.CommandPath())[1:] }

// TestEveryFlagIsASetting gives every flag of every command by its variable and by its key in both kinds of files.
func TestEveryFlagIsASetting(t *testing.T) {
	seen := 0
	eachFlag(t, func(t *testing.T, cmd *cobra.Command, f *pflag.Flag) {
		seen++
		if f.Value.Type() == "stringArray" || f.Value.Type() == "stringSlice" {
			t.Error("use sources.Addresses or sources.Paths: they have a list in the environment")
		}
		value := sample(f)
		key := strings.ReplaceAll(f.Name, "-", "_")
		files := map[string]string{"f.toml": fmt.Sprintf("%s = %q\n", key, value), "f.json": fmt.Sprintf("{%q: %q}", key, value)}
		t.Setenv("P2PDILOCO_"+strings.ToUpper(key), value)
		for name, text := range files {
			again, _, _ := newRoot().Find(words(cmd))
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := again.ParseFlags([]string{"--config", path}); err != nil {
				t.Fatal(err)
			}
			if err := sources.Fill(again.Flags(), flagsOf(again.Root())); err != nil || again.Flags().Lookup(f.Name).Value.String() != value {
				t.Errorf("%s: %v, %v", text, again.Flags().Lookup(f.Name).Value, err)
			}
		}
		var stderr strings.Builder
		if err := fill(cmd, &stderr); err != nil || f.Value.String() != value || value == f.DefValue || stderr.Len() > 0 {
			t.Errorf("from the environment %v, default %v, %v, %s", f.Value, f.DefValue, err, &stderr)
		}
	})
	if seen < 60 {
		t.Errorf("only %d flags", seen)
	}
}

// TestKnownElsewhere: an embedding library accepts in a config file what the commands here do.
func TestKnownElsewhere(t *testing.T) {
	here, there := flagsOf(newRoot()), settings.Known()
	for name, suggested := range here {
		if s, ok := there[name]; !ok || s != suggested {
			t.Errorf("--%s: add it to `elsewhere` in bridge/settings/known.go", name)
		}
	}
	for name := range there {
		if _, ok := here[name]; !ok {
			t.Errorf("no command has --%s: remove it from `elsewhere` in bridge/settings/known.go", name)
		}
	}
}

// TestOneNameIsOneKind: commands that read one file and one environment must not differ in what a name's value is.
func TestOneNameIsOneKind(t *testing.T) {
	kinds := map[string]string{}
	eachFlag(t, func(t *testing.T, cmd *cobra.Command, f *pflag.Flag) {
		kind := f.Value.Type()
		if kind == "how" { // demo takes fewer
			kind = "string"
		}
		if before := kinds[f.Name]; before != "" && before != kind {
			t.Errorf("a %s here and a %s in another command", kind, before)
		}
		kinds[f.Name] = kind
	})
}

func TestHelpSaysWhereFlagsMayBeGiven(t *testing.T) {
	for _, cmd := range commandsOf(newRoot()) {
		code, stdout, _ := line(append(words(cmd), "--help")...)
		if code != exitOK || !strings.Contains(stdout, "P2PDILOCO_INNER_STEPS=100") || !strings.Contains(stdout, "--config file") {
			t.Errorf("%s --help says\n%s", cmd.Name(), stdout)
		}
	}
}

var update = flag.Bool("update", false, "write what is generated to docs/operations.md")

const (
	docs       = "../../docs/operations.md"
	tableBegin = "<!-- settings: go test ./cmd/p2pdiloco -run TestDocs -update -->\n"
	tableEnd   = "<!-- /settings -->\n"
)

// TestDocs holds the table of settings in docs/operations.md against the flags.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table", docs)
	}
	want := before + tableBegin + settingsTable() + tableEnd + after
	if *update {
		if err := os.WriteFile(docs, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("the table of settings in %s is not that of the flags: go test ./cmd/p2pdiloco -run TestDocs -update", docs)
	}
}

// settingsTable is a row for each key: those of join in the help's order, then the other commands'.
func settingsTable() string {
	root := newRoot()
	rows, order := map[string]string{}, []string{}
	commands := map[string][]string{}
	list := commandsOf(root)
	slices.SortStableFunc(list, func(a, b *cobra.Command) int { return rank(a) - rank(b) })
	for _, cmd := range list {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			commands[f.Name] = append(commands[f.Name], "`"+strings.Join(words(cmd), " ")+"`")
			if rows[f.Name] == "" {
				order = append(order, f.Name)
				_, usage := pflag.UnquoteUsage(f)
				if value := f.DefValue; value != "" && value != "0" && value != "0s" && value != "false" {
					usage += " (default " + value + ")"
				}
				rows[f.Name] = usage
			}
		})
	}
	var b strings.Builder
	b.WriteString("| in a file | commands | meaning and default of the first |\n| --- | --- | --- |\n")
	for _, name := range order {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", sources.Key(name), strings.Join(commands[name], ", "), rows[name])
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
	if err != nil {
		t.Fatal(err)
	}
	var environ []string
	for l := range strings.Lines(string(text)) {
		if !strings.HasPrefix(l, "#") {
			environ = append(environ, strings.TrimSpace(l))
		}
	}
	s, fs := settings.New(), pflag.NewFlagSet("", pflag.ContinueOnError)
	s.Register(fs)
	if err := fs.Parse([]string{"--run", "books"}); err != nil {
		t.Fatal(err)
	}
	if err := sources.Fill(fs, settings.Known(), sources.Environment(environ)); err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(file, []byte("slots = 3\nseed = 0\nfaults = \"kill\"\nidentity = \"for bootstrap\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ environ, args, want string }{
		{"P2PDILOCO_PEERS=99", "demo", "P2PDILOCO_PEERS=99: allowed: 1 to 64"},
		{"P2PDILOCO_CONFIG=" + file, "chaos", file + ": slots = 3: allowed"},
		{"P2PDILOCO_CONFIG=" + file, "chaos --slots 60", file + ": seed = 0: allowed"},
		{"P2PDILOCO_FAULTS=murder", "chaos", "P2PDILOCO_FAULTS=murder: \"murder\" is none of"},
		{"P2PDILOCO_API=example.org:80", "status", "P2PDILOCO_API=example.org:80: the status API is for this machine only"},
		{"P2PDILOCO_API=example.org:80", "recover", "P2PDILOCO_API=example.org:80: the status API"},
		{"P2PDILOCO_LOG_LEVEL=loud", "bootstrap", "P2PDILOCO_LOG_LEVEL=loud: allowed: debug, info"},
		{"P2PDILOCO_SLOT=last", "export --data-dir d --out m", "P2PDILOCO_SLOT=last: allowed: a slot's number, or latest"},
		{"P2PDILOCO_ROUNDS=abc", "join --run x", "P2PDILOCO_ROUNDS=abc: allowed: a whole number"},
		{"P2PDILOCO_RUN=x", "join --rounds 0", "--rounds 0: empty or 0"},
		{"P2PDILOCO_ROUDNS=5", "join", "P2PDILOCO_ROUDNS in the environment is no setting: did you mean P2PDILOCO_ROUNDS?"},
		{"P2PDILOCO_CONFIG=" + file, "join --run x --api off", file + ": seed = 0: empty or 0"},
		{"P2PDILOCO_TRAINER=./none.so", "join --run x --api off --data-dir " + t.TempDir(), "P2PDILOCO_TRAINER=./none.so: "},
	} {
		t.Run(c.environ+" "+c.args, func(t *testing.T) {
			name, value, _ := strings.Cut(c.environ, "=")
			t.Setenv(name, value)
			code, stdout, stderr := line(strings.Fields(c.args)...)
			if code != exitUsage || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, stdout %q, stderr %q; want %d and %q", code, stdout, stderr, exitUsage, c.want)
			}
		})
	}
}
