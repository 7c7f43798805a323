package peer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

func write(t *testing.T, name, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// parse is a command line and an environment as `p2pdiloco join` reads them.
func parse(t *testing.T, environ []string, args ...string) (*Settings, error) {
	t.Helper()
	s, fs := NewSettings(), pflag.NewFlagSet("", pflag.ContinueOnError)
	s.Register(fs)
	fs.String(sources.ConfigFlag, "", "")
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	known := sources.Known{"peers": true, "identity": true} // of other commands
	known.Add(fs)
	return s, sources.Fill(fs, known, sources.Environment(environ))
}

func config(t *testing.T, environ []string, args ...string) (p2pdiloco.Config, *Settings) {
	t.Helper()
	s, err := parse(t, environ, args...)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := s.Config()
	if err != nil {
		t.Fatal(err)
	}
	return cfg, s
}

// fault is what is wrong with a command line and an environment. It must have a text in it; empty:
// nothing is wrong.
func fault(t *testing.T, want string, environ []string, args ...string) error {
	t.Helper()
	s, err := parse(t, environ, args...)
	if err == nil {
		_, err = s.Config()
	}
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%q %q: %v, want %q", environ, args, err, want)
	}
	return err
}

func TestDefaults(t *testing.T) {
	cfg, s := config(t, nil, "--run", "x")
	want := p2pdiloco.Config{
		Spec: p2pdiloco.Spec{Name: "x"}, OnQuorumLoss: "continue", CheckpointEvery: 4,
		KeepCheckpoints: 2,
	}
	if !reflect.DeepEqual(cfg, want) || s.Trainer != TrainerGPT || s.API != "" || s.Model.Threads != 1 {
		t.Errorf("got %+v, %+v", cfg, s)
	}
	if _, s := config(t, nil, "--run", "x", "--threads", "0"); s.Model.Threads != runtime.NumCPU() {
		t.Errorf("%d cores are all", s.Model.Threads)
	}
}

// Settings that do not go together are a fault of one that was given, and one fault.
func TestFaultsAreOfWhatWasGiven(t *testing.T) {
	late := write(t, "spec.toml", "discount = [1000, 500]\n")
	for _, args := range [][]string{
		{"--pace", "deadline"},
		{"--mode", "streaming", "--pace", "dylu"},
		{"--mode", "async", "--fragments", "4"},
		{"--pace", "dylu", "--fragments", "4"},
		{"--mode", "streaming", "--fragments", "300"},
		{"--mode", "streaming", "--fragments", "4", "--spec", late},
		{"--mode", "eager", "--outer", "adam"},
	} {
		text := fault(t, " ", nil, append(args, "--run", "x")...).Error()
		if !strings.HasPrefix(text, "--") && !strings.HasPrefix(text, late) || strings.Contains(text, "\n") {
			t.Errorf("%v: %q", args, text)
		}
	}
}

// Settings that a peer may join with, but not found a run with, are named before it looks for the
// run: else it refuses only after the search, in the words of the spec, which has no such flag.
func TestFaultsOfAFounder(t *testing.T) {
	file := write(t, "spec.toml", "fragments = 4\n")
	for _, c := range []struct{ args, want string }{
		{"--fragments 4", "--fragments 4: mode sync has one fragment: take mode streaming for more"},
		{"--fragment-delay 3", "--fragment-delay 3: it is of mode streaming, and the mode is sync"},
		{"--min-peers 3", "--min-peers 3: more than start_peers: the first slot could never close"},
		{"--access private --audit-samples 3", "--audit-samples 3: it is for trust byzantine, and has no effect with " +
			"trust crash: leave it out, or take trust byzantine"},
		{"--spec " + file, file + ": fragments = 4: mode sync has one fragment: take mode streaming for more"},
		{"--mode streaming --fragments 4", ""},
		{"", ""},
	} {
		cfg, s := config(t, nil, append(strings.Fields(c.args), "--run", "x")...)
		got := ""
		if err := s.FounderFaults(cfg.Spec); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}

// A founder that is no peer ID is one fault, and not one of an empty list, too.
func TestAFounderThatIsNoPeer(t *testing.T) {
	const want = "--founders abc: no peer ID, like 12D3Koo…, as p2pdiloco id shows it"
	if err := fault(t, want, nil, "--run", "x", "--founders", "abc"); fmt.Sprint(err) != want {
		t.Errorf("got %q, want %q", err, want)
	}
}

// TestPrecedence gives --rounds in every combination of the places.
func TestPrecedence(t *testing.T) {
	spec := write(t, "spec.toml", "rounds = 5\nmomentum = \"0.6\"\n")
	file := write(t, "run.toml", "rounds = 4\n")
	for mask := range 1 << 4 {
		want, args, environ := uint64(0), []string{"--run", "x"}, []string(nil)
		if mask&8 != 0 {
			args, want = append(args, "--spec", spec), 5
		}
		if mask&4 != 0 {
			environ, want = append(environ, "P2PDILOCO_CONFIG="+file), 4
		}
		if mask&2 != 0 {
			environ, want = append(environ, "P2PDILOCO_ROUNDS=3"), 3
		}
		if mask&1 != 0 {
			args, want = append(args, "--rounds", "2"), 2
		}
		cfg, _ := config(t, environ, args...)
		if cfg.Spec.Rounds != want || (cfg.Spec.Momentum == "0.6") != (mask&8 != 0) {
			t.Errorf("flag, environment, config, spec %04b: %+v, want %d rounds", mask, cfg.Spec, want)
		}
	}
}

func TestEverythingFromAFile(t *testing.T) {
	pin := p2pdiloco.Root{1}
	file := write(t, "run.toml", fmt.Sprintf(`
run = "x"
rounds = 5
outer_lr = "0.5"
bootstrap = ["/ip4/192.0.2.1/tcp/1/p2p/A", "B"]
listen = ["/l"]
found = true
preset = "lan"
on_quorum_loss = "pause"
pin = %q
init = "m.safetensors"
data_dir = "dir"
checkpoint_every = 6
keep_checkpoints = 3
state_rate = 2
newcomer_states = 7
site_newcomers = -1
max_upload = "20mbit"
max_download = "40mbit"
events = "e.jsonl"
events_size = 7
events_keep = 9
track = "tensorboard:board"
api = "off"
metrics = ":9464"
json = true
log_level = "debug"
model = "layers=2,optimizer=muon"
threads = 3
data = ["a", "b"]
pause = "1s"
gate = "g"
peers = 8
identity = "k"
`, pin.String()))
	cfg, s := config(t, nil, "--config", file)
	want := p2pdiloco.Config{
		Spec: p2pdiloco.Spec{Name: "x", Rounds: 5, OuterLR: "0.5"}, DataDir: "dir", Listen: []string{"/l"},
		Bootstrap: []string{"/ip4/192.0.2.1/tcp/1/p2p/A", "B"}, Found: true, OnQuorumLoss: "pause", Pin: pin,
		Preset: "lan", InitFile: "m.safetensors",
		CheckpointEvery: 6, KeepCheckpoints: 3, StateBytesPerSecond: 2_000_000, MaxUpload: 2_500_000,
		MaxDownload: 5_000_000, NewcomerStates: 7, SiteNewcomers: -1,
	}
	if !reflect.DeepEqual(cfg, want) {
		t.Errorf("got %+v", cfg)
	}
	if s.Events != "e.jsonl" || s.Track != "tensorboard:board" || s.EventsSize != 7 || s.EventsKeep != 9 ||
		s.API != NoAPI || s.Metrics != ":9464" || !s.JSON || s.LogLevel != "debug" ||
		s.Model.Layers != 2 || s.Model.Optimizer != "muon" || s.Model.Threads != 3 ||
		!slices.Equal(s.Data, []string{"a", "b"}) || s.Pause.String() != "1s" || s.Gate != "g" {
		t.Errorf("got %+v", s)
	}
}

// The node of a peer that stays ends as ever.
func TestLinger(t *testing.T) {
	for text, want := range map[string]struct {
		linger time.Duration
		stays  bool
	}{"90s": {90 * time.Second, false}, "0s": {}, "forever": {0, true}} {
		cfg, s := config(t, []string{"P2PDILOCO_LINGER=" + text}, "--run", "x")
		if cfg.Linger != want.linger || s.Stays() != want.stays {
			t.Errorf("%s: %v, stays %v", text, cfg.Linger, s.Stays())
		}
	}
	for _, text := range []string{"soon", "-1ns", "10"} {
		_ = fault(t, "allowed: a duration like 90s, 10m or 1h30m, or forever", []string{"P2PDILOCO_LINGER=" + text},
			"--run", "x")
	}
}

// TestFaults: all are said at once, each in the words of its source.
func TestFaults(t *testing.T) {
	spec := write(t, "spec.toml", "outer = \"adagrad\"\nrounds = 5\n")
	file := write(t, "run.toml", "aggregator = \"avg\"\nstate_rate = -1\n")
	err := fault(t, "--clip maybe: allowed: on, off", []string{
		"P2PDILOCO_API=0.0.0.0:80", "P2PDILOCO_TRIM_PERMILLE=500",
		"P2PDILOCO_MODEL=width=100,heads=3",
	},
		"--run", "x", "--clip", "maybe", "--metrics", "9464", "--keep-checkpoints", "0",
		"--dashboard=0.0.0.0:80", "--events-size", "-1", "--events-keep", "-1", "--max-upload", "100kbit",
		"--max-download", "100kbit", "--spec", spec, "--config", file)
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("%v is not ErrInvalid", err)
	}
	for _, want := range []string{
		"--metrics 9464: give HOST:PORT",
		spec + ": outer = adagrad: allowed: sgd, nesterov, delayed_nesterov, adam",
		file + ": aggregator = avg: allowed: mean",
		"P2PDILOCO_TRIM_PERMILLE=500: allowed: 1 to 499",
		"P2PDILOCO_API=0.0.0.0:80: the status API is for this machine only",
		"--dashboard 0.0.0.0:80: give a loopback address",
		"--events-size -1: allowed: 1 to 1048576, or 0", "--events-keep -1: allowed: 0 to 1000",
		"--keep-checkpoints 0: at least 1", "--max-upload 100kbit: at least", "--max-download 100kbit: at least",
		file + ": state_rate = -1: allowed:",
		"P2PDILOCO_MODEL=width=100,heads=3: width 100 is not a multiple of 3 heads",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwithout %q", err, want)
		}
	}
}

// Slots are tracked where the kind of tracker is named.
func TestTrack(t *testing.T) {
	for _, text := range []string{"tensorboard", "jsonl:", "wandb:x"} {
		setting := "P2PDILOCO_TRACK=" + text
		_ = fault(t, setting+": allowed: tensorboard:FOLDER, jsonl:FILE", []string{setting}, "--run", "x")
	}
}

// The page may be wanted without an address. It takes the API.
func TestDashboardAddress(t *testing.T) {
	if _, s := config(t, nil, "--run", "x", "--dashboard"); s.Dashboard != UsualPage {
		t.Error(s.Dashboard)
	}
	_ = fault(t, "P2PDILOCO_DASHBOARD=on: the page asks the peer's API, which is off",
		[]string{"P2PDILOCO_DASHBOARD=on"}, "--run", "x", "--api", "off")
}

// The inner optimizers of the built-in model are known by name.
func TestInnerOptimizers(t *testing.T) {
	var m Model
	if err := m.Set("optimizer=sgd"); err == nil || !strings.Contains(err.Error(), "optimizer=adamw|muon") {
		t.Errorf("another one: %v", err)
	}
	if err := m.Set("heads=2,optimizer=muon"); err != nil || m.String() != "heads=2,optimizer=muon" {
		t.Errorf("%v, %v", &m, err)
	}
}

// TestTrainers: a setting of another trainer than the chosen one is refused, unless it comes from a
// place that others read, too.
func TestTrainers(t *testing.T) {
	file := write(t, "run.toml", "run = \"x\"\ndata = \"books\"\ntrainer_config = \"t.json\"\nmodel = \"layers=2\"\n")
	none := write(t, "none.toml", "trainer = \"none\"\ndata = \"books\"\n")
	for _, c := range []struct {
		environ, args, want string
	}{
		{"", "--trainer none --data books", "--data books: it is for a peer that trains with builtin:gpt, not for " +
			"--trainer none"},
		{"P2PDILOCO_TRAINER=none", "--threads 2", "--threads 2: it is for"},
		{"P2PDILOCO_THREADS=2", "--trainer none", ""},
		{"P2PDILOCO_THREADS=2\nP2PDILOCO_TRAINER=none", "", "P2PDILOCO_THREADS=2: it is for"},
		{"", "--trainer none --config " + file, ""},
		{"", "--config " + none, none + ": data = books: it is for"},
		{"", "--config " + file, file + ": trainer_config = t.json: it is for a trainer that is a shared library, " +
			"not for --trainer builtin:gpt"},
		{"", "--trainer ./t.so --config " + file, ""},
		{"", "--trainer t.dylib --trainer-config t.json --trainer-timeout 1m", ""},
		{"", "--trainer dir/t --trainer-timeout 1ms", "--trainer-timeout 1ms: at least 1s"},
		{"", "--trainer-timeout 1m", "--trainer-timeout 1m0s: it is for a trainer that attaches or is a shared " +
			"library"},
		{"", "--trainer attach --trainer-timeout 1m --trainer-return 0s", ""},
		{"", "--trainer attach --trainer-timeout 1ms", "--trainer-timeout 1ms: at least 1s"},
		{"", "--trainer attach --trainer-return -1s", "--trainer-return -1s: at least 0s"},
		{"", "--trainer none --trainer-return 1m", "--trainer-return 1m0s: it is for a trainer that attaches, not"},
		{"", "--trainer ./t.so --model layers=2", "--model layers=2: it is for a peer that trains with builtin:gpt"},
		{"", "--trainer none --init m", "--init m: it is for a peer that trains, not"},
		{"", "--trainer ./t.so --init m", ""},
		{"", "--threads 300", "--threads 300: threads 300: 1 to 256 is allowed"},
	} {
		_ = fault(t, c.want, strings.Split(c.environ, "\n"), append(strings.Fields(c.args), "--run", "x")...)
	}
}

// A ticket says which run; what contradicts it is named in the words of its source.
func TestTicket(t *testing.T) {
	k := ticket.Ticket{
		Run: "books", RunID: p2pdiloco.Root{1}, Pin: p2pdiloco.Root{2},
		Addrs: []string{"/ip4/192.0.2.1/tcp/4001/p2p/12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF"},
	}
	text, err := k.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--ticket", text},
		{"--ticket", text, "--run", "books", "--pin", k.Pin.String(), "--bootstrap", "/a"},
	} {
		if cfg, _ := config(t, nil, args...); cfg.Ticket != text || cfg.Spec.Name != "books" {
			t.Errorf("%v: %+v", args[2:], cfg)
		}
	}
	spec := write(t, "spec.toml", "name = \"films\"\n")
	for _, c := range []struct{ environ, args, want string }{
		{"", "--run films", "--run films: the ticket is for run books: leave this out"},
		{"P2PDILOCO_RUN=films", "", "P2PDILOCO_RUN=films: the ticket is for run books"},
		{"", "--spec " + spec, spec + ": name = films: the ticket is for run books"},
		{"", "--pin " + p2pdiloco.Root{3}.String(), "the ticket pins 02"},
		{"", "--found", "a ticket is for a run that exists"},
	} {
		_ = fault(t, c.want, []string{c.environ}, append(strings.Fields(c.args), "--ticket", text)...)
	}
}

func TestFollow(t *testing.T) {
	const id = "12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF"
	cfg, _ := config(t, []string{"P2PDILOCO_FOLLOW=" + id}, "--run", "x")
	if len(cfg.Follow) != 1 || cfg.Follow[0].String() != id {
		t.Errorf("got %v", cfg.Follow)
	}
	if err := fault(t, "--follow books: no peer ID", nil, "--run", "x", "--follow", "books"); !errors.Is(err,
		ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestTrust(t *testing.T) {
	const a, b = "12D3KooWEqnTdgqHnkkwarSrJjeMP2ZJiADWLYADaNvUb6SQNyPF",
		"12D3KooWGRUaJGRbFqVuZzVJKGjSSyZbVLXGFrsA5Bb2GcHkHtVz"
	file := write(t, "run.toml", fmt.Sprintf("name = \"x\"\ntrust = \"byzantine\"\nfounders = [%q, %q]\n", b, a))
	for name, given := range map[string]struct{ environ, args []string }{
		"flags": {nil, []string{"--run", "x", "--trust", "byzantine", "--founders", b, "--founders", a}},
		"environment": {
			[]string{"P2PDILOCO_FOUNDERS=" + b + ", " + a, "P2PDILOCO_TRUST=byzantine"},
			[]string{"--run", "x"},
		},
		"file": {nil, []string{"--spec", file}},
	} {
		cfg, _ := config(t, given.environ, given.args...)
		fields := cfg.Spec.Fields()
		if fields["founders"] != a+","+b || fields["trust"] != "byzantine" {
			t.Errorf("%s: got %v", name, fields)
		}
	}
	for _, c := range [][]string{
		{"--founders books", "--founders books: no peer ID", "--trust", "byzantine", "--founders", "books"},
		{"--schedule ring", "--schedule ring: with trust byzantine", "--trust", "byzantine", "--schedule", "ring"},
		{"a file", "founders: a peer ID", "--spec", write(t, "bad.toml", "name = \"x\"\nfounders = [\"0\"]\n")},
		{"no list", "a list of peer IDs", "--spec", write(t, "no.toml", "name = \"x\"\nfounders = \"me\"\n")},
	} {
		_ = fault(t, c[1], nil, append([]string{"--run", "x"}, c[2:]...)...)
	}
}

// TestTableOfSettings holds the table to what it promises.
func TestTableOfSettings(t *testing.T) {
	definitions := NewSettings().definitions()
	for _, d := range definitions {
		if strings.ToLower(d.name) != d.name || d.usage == "" {
			t.Errorf("%+v", d)
		}
	}
	for name := range (p2pdiloco.Spec{
		Name: "x", Rounds: 1, InnerSteps: 1, Outer: "x", OuterLR: "x", Momentum: "x",
		Aggregator: "x", TrimPermille: 1, Clip: "x", Seed: 1, StartPeers: 1, MinPeers: 1,
	}).Fields() {
		if !slices.ContainsFunc(definitions, func(d setting) bool {
			return d.name == flagOf(name) && d.use == nil
		}) {
			t.Errorf("the spec's %s has no setting", name)
		}
	}
}
