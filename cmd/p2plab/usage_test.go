package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/cmd/internal/cli"
	"github.com/p2pdiloco/p2pdiloco/cmd/internal/clitest"
)

func TestWrongCommandLines(t *testing.T) {
	clitest.Answers(t, newRoot, cli.ExitUsage, []clitest.Case{
		{"chaos --peers 2 --slots 3 --faults kill", "--peers 2: allowed: 3 to 64"},
		{"chaos --slots 3 --faults kill", "--slots 3: allowed: 7 to"},
		{"chaos --preset moon --faults kill", "--preset moon: allowed: lan, wan"},
		{"chaos --seed 0 --faults kill", "--seed 0: allowed: 1 and above"},
		{"chaos --faults kill,murder", "--faults kill,murder: \"murder\" is none of kill,leader,"},
		{"join --run x --dashboard", "--dashboard on: this program has no page: p2pdiloco has"},
		{"soak --peers 2 --minutes 0", "--peers 2: allowed: 3 to 64"},
		{"soak --faults all", "--faults all: all is not for a soak; allowed: kill,leader"},
		{"chaos --hostile murder", "--hostile murder: \"murder\" is no attack"},
		{"chaos --hostile mute --trust blind", "--trust blind: allowed: crash, byzantine"},
		{"chaos --faults kill --trust blind", "--trust blind: allowed: crash, byzantine"},
		{"chaos --hostile mute --peers 2", "--peers 2: allowed: 3 to 64"},
		{"bench modes --peers 1 --seeds 0", "--peers 1: allowed: 2 to"},
		{"bench modes --rounds 0", "--rounds 0: allowed: 1 to"},
		{"bench modes --rows sync,gossip", "--rows sync,gossip: gossip: \"gossip\" is no mode: sync, delayed"},
		{"bench modes --rate fast", "--rate fast: allowed: 1kbit to"},
		{"bench modes --rtt 3s", "--rtt 3s: allowed: 0 to 2s"},
		{"bench modes --model width=5,heads=3", "--model width=5,heads=3: width 5 is not a multiple"},
		{"bench moods", "takes flags only"},
		{"bench allreduce --peers 1 --slots 0", "--slots 0: allowed: 1 to"},
		{"bench allreduce --size 64", "--size 64B: allowed: 1KiB to"},
		{"bench allreduce --schedules star", "--schedules star: allowed: "},
		{"bench allreduce --codecs int7", "--codecs int7: allowed: "},
		{"bench allreduce --against gloo", "--against gloo: allowed: mpi"},
		{"bench step --against mpi --rate 1gbit", "--against mpi: it runs on loopback only"},
		{"bench step --peers 1", "--peers 1: allowed: 2 to 64"},
		{"bench step --size 4GiB", "--size 4GiB: allowed: 1KiB to 1GiB"},
		{"bench step --slots 0 --rtt 3s", "--rtt 3s: allowed: 0 to 2s"},
		{"bench step --trusts crash,blind", "--trusts crash,blind: allowed: crash, byzantine"},
		{"bench allreduce 4", "takes flags only"},
		{"chaos --mode gossip --faults kill", "--mode gossip: allowed: sync, delayed"},
		{"chaos --codec int7 --faults kill", "--codec int7: "},
	})
}

func TestHelp(t *testing.T) {
	clitest.Answers(t, newRoot, cli.ExitOK, []clitest.Case{
		{"bench", "Available Commands"},
		{"bench allreduce --help", "--against mpi"},
		{"bench modes --help", "goals that are met or missed"},
		{"bench step --help", "until the new anchor is"},
		{"", "p2plab chaos"},
	})
}

func TestEveryFlagIsASetting(t *testing.T) { clitest.FlagsAreSettings(t, newRoot) }

// TestSourcesInErrors has commands other than join name the place that a wrong value came from.
func TestSourcesInErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.toml")
	if err := os.WriteFile(file, []byte("slots = 3\nseed = 0\nfaults = \"kill\"\nidentity = \"for bootstrap\"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	clitest.NameTheirSources(t, newRoot, []clitest.Sourced{
		{"P2PDILOCO_CONFIG=" + file, "chaos", file + ": slots = 3: allowed"},
		{"P2PDILOCO_CONFIG=" + file, "chaos --slots 60", file + ": seed = 0: allowed"},
		{"P2PDILOCO_FAULTS=murder", "chaos", "P2PDILOCO_FAULTS=murder: \"murder\" is none of"},
	})
}
