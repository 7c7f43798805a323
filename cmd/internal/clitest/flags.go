package clitest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// Commands are the commands below one that do something themselves.
func Commands(parent *cobra.Command) (all []*cobra.Command) {
	for _, cmd := range parent.Commands() {
		switch {
		case cmd.Name() == "help", cmd.Hidden: // cobra's own, and those that no user starts
		case cmd.HasSubCommands():
			all = append(all, Commands(cmd)...)
		default:
			all = append(all, cmd)
		}
	}
	return all
}

// Words are a command's words below the root.
func Words(cmd *cobra.Command) []string { return strings.Fields(cmd.CommandPath())[1:] }

// FlagsAreSettings gives every flag of every command by its variable and by its key in a
// file, and checks that one name is one kind of value in all commands, that config files may
// hold all flags, and that every help says where flags may be given.
func FlagsAreSettings(t *testing.T, newRoot func() *cobra.Command) {
	kinds := map[string]string{}
	for _, like := range Commands(newRoot()) {
		code, stdout, _ := Line(newRoot(), append(Words(like), "--help")...)
		if code != cli.ExitOK || !strings.Contains(stdout, "P2PDILOCO_INNER_STEPS=100") ||
			!strings.Contains(stdout, "--config file") {
			t.Errorf("%s --help says\n%s", like.Name(), stdout)
		}
		like.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			kind := f.Value.Type()
			if kind == f.Name { // one of several words: demo and chaos take fewer
				kind = "string"
			}
			if before := kinds[f.Name]; before != "" && before != kind {
				t.Errorf("--%s is a %s for %s and a %s for another command", f.Name, kind, like.Name(), before)
			}
			kinds[f.Name] = kind
			t.Run(strings.Join(Words(like), " ")+" --"+f.Name, func(t *testing.T) {
				testFlag(t, newRoot, Words(like), f.Name)
			})
		})
	}
}

func testFlag(t *testing.T, newRoot func() *cobra.Command, command []string, name string) {
	find := func(args ...string) *cobra.Command {
		cmd, _, err := newRoot().Find(command)
		if err == nil {
			err = cmd.ParseFlags(args)
		}
		if err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	f := find().Flags().Lookup(name)
	value, key := sample(f), sources.Key(name)
	if value == f.DefValue {
		t.Fatalf("the sample %s is the default", value)
	}
	t.Setenv("P2PDILOCO_"+strings.ToUpper(key), value)
	check := func(where string, environ []string, args ...string) {
		cmd := find(args...)
		var from []sources.Source
		if environ != nil {
			from = append(from, sources.Environment(environ))
		}
		err := sources.Fill(cmd.Flags(), cli.Known(cmd.Root()), from...)
		got := strings.Trim(cmd.Flags().Lookup(name).Value.String(), "[]")
		if err != nil || got != value {
			t.Errorf("%s: %s, %v", where, got, err)
		}
	}
	check("the environment", os.Environ())
	path, text := filepath.Join(t.TempDir(), "f.toml"), fmt.Sprintf("%s = %q\n", key, value)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	check(text, nil, "--config", path)
}

// sample is a value that a flag may have and by default has not.
func sample(f *pflag.Flag) string {
	if f.Name == "preset" && f.DefValue == "lan" {
		return "wan"
	}
	if v, ok := map[string]string{
		"trust": "byzantine", "linger": "3s",
		"mode": "eager", "pace": "dylu", "on-quorum-loss": "pause", "preset": "lan", "trainer": "./t.so",
		"model": "layers=2", "aggregator": "median", "log-level": "error", "slot": "7", "rate": "20mbit", "seeds": "5",
		"pin":   p2pdiloco.Root{1}.String(),
		"codec": "int4", "max-upload": "20mbit", "max-download": "20mbit", "ttl": "3d", "size": "3KiB",
		"relay-total": "20mbit", "against": "mpi", "track": "tensorboard:board",
	}[f.Name]; ok {
		return v
	}
	if f.DefValue == "true" {
		return "false"
	}
	if v, ok := map[string]string{
		"bool": "true", "int": "3", "int64": "3", "uint64": "3", "float64": "3",
		"duration": "3s", "string": "text", "stringArray": "/a b",
	}[f.Value.Type()]; ok {
		return v
	}
	return "no sample of " + f.Value.Type()
}
