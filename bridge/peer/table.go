package peer

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

var (
	presets = []string{p2pdiloco.PresetLAN, p2pdiloco.PresetWAN}
	onLoss  = []string{p2pdiloco.OnLossContinue, p2pdiloco.OnLossPause}
)

// NewSettings is the defaults.
func NewSettings() *Settings {
	return &Settings{
		LogLevel: "warn",
		Trainer:  TrainerGPT, TrainerTimeout: 10 * time.Minute, TrainerReturn: 10 * time.Minute, Threads: 1,
		EventsSize: 32, EventsKeep: 4,
		cfg: p2pdiloco.Config{OnQuorumLoss: p2pdiloco.OnLossContinue, CheckpointEvery: 4, KeepCheckpoints: 2},
	}
}

// Register makes each setting a flag of fs, whose values s has from then on.
func (s *Settings) Register(fs *pflag.FlagSet) {
	s.flags = fs
	for _, d := range s.definitions() {
		d.register(fs)
	}
}

// setting is one setting.
type setting struct {
	name  string // of the flag
	use   *use
	value any    // pointer to the value, or a pflag.Value
	usage string // in backquotes: what help calls the value
}

// bare is the value of a setting that may be given without one, which means alone.
type bare struct {
	text  *string
	alone string
}

// use says whose a setting is; nil: every peer's.
type use struct {
	whose string
	fits  func(Trainer) bool
}

var (
	ofGPT   = &use{"a peer that trains with " + string(TrainerGPT), func(t Trainer) bool { return t == TrainerGPT }}
	ofTests = &use{ofGPT.whose, ofGPT.fits} // not in the help

	ofPlugin  = &use{"a trainer that is a shared library", Trainer.Library}
	ofAttach  = &use{"a trainer that attaches", func(t Trainer) bool { return t == TrainerAttach }}
	ofProcess = &use{
		"a trainer that attaches or is a shared library",
		func(t Trainer) bool { return t == TrainerAttach || t.Library() },
	}
	initial = &use{"a peer that trains", func(t Trainer) bool { return t != TrainerNone }}
)

// definitions are all settings: the fields of the run spec that have a flag, and those of a peer.
func (s *Settings) definitions() []setting {
	var all []setting
	for _, f := range spec.Table() {
		if f.Help != "" {
			value := f.At(&s.cfg.Spec)
			if f.Name == founders {
				value = &s.founders
			}
			all = append(all, setting{flagOf(f.Name), nil, value, f.Help})
		}
	}
	return slices.Concat(all, s.access(), s.training(), s.keeping())
}

// RegisterSpec makes fields of a run spec flags of fs, with the defaults that the spec has.
func RegisterSpec(fs *pflag.FlagSet, run *spec.Spec, names ...string) {
	for _, f := range spec.Table() {
		if slices.Contains(names, f.Name) {
			help := f.Help
			if f.Text(*run) != "" {
				help, _, _ = strings.Cut(help, " (founder's default")
			}
			setting{flagOf(f.Name), nil, f.At(run), help}.register(fs)
		}
	}
}

// access are settings of which peers may take part, and how peers reach each other.
func (s *Settings) access() []setting {
	return []setting{
		{"spec", nil, &s.specFile, "TOML `file` with the run spec; settings given beside it win"},
		{
			"admission-secret", nil, &s.cfg.AdmissionSecret,
			"`file` with the secret of a private run, from the data directory of a " +
				"peer of it; instead of a ticket (default: the founder of a private run makes one)",
		},
		{"follow", nil, &s.follow, "`peer` whose motions to remove or readmit others, or to change " +
			"the secret, this peer makes, too; may be repeated"},
		{
			"ticket",
			nil,
			sources.Var(&s.cfg.Ticket, "string", readTicket, sources.Plain),
			"`text` of an invitation, as p2pdiloco invite prints it, @FILE that holds it, or " +
				"- for standard input: instead of --run, --pin and --bootstrap",
		},
		{"bootstrap", nil, &s.cfg.Bootstrap, "`multiaddr` ending in /p2p/PEER to start from, may be " +
			"repeated (default: look on the local network with mDNS)"},
		{"listen", nil, &s.cfg.Listen, "`multiaddr` to listen on, may be repeated (default any free " +
			"TCP and UDP port at the first start, which the data directory keeps for the next ones)"},
		{"announce", nil, &s.cfg.Announce, "`multiaddr` that others are told besides those seen, " +
			"where a router or firewall lets them through to this peer; may be repeated"},
		{"no-port-map", nil, &s.cfg.NoPortMap, "do not ask the router (UPnP, NAT-PMP) to forward this peer's ports, " +
			"as is done with --preset wan"},
		{"no-relaying", nil, &s.cfg.NoRelaying, "do not relay for members of the run that cannot connect to each " +
			"other"},
		{"found", nil, &s.cfg.Found, "found the run even if no bootstrap address answers (p2pdiloco start NAME " +
			"founds it at once)"},
		{
			"preset",
			nil,
			sources.OneOf(&s.cfg.Preset, "preset", presets),
			"timing, the same for all peers of a run: lan (one machine or building) or wan " +
				"(the internet) (default: as the run's peers have it; wan for the founder)",
		},
		{
			"on-quorum-loss",
			nil,
			sources.OneOf(&s.cfg.OnQuorumLoss, "action", onLoss),
			"when too few members are left to decide: continue without the others " +
				"after a while, or pause until p2pdiloco recover",
		},
		{
			"pin",
			nil,
			sources.Var(&s.cfg.Pin, "hash", readPin, showPin),
			"`hash` of a record that the run's chain must have, as the status of a peer that is " +
				"trusted shows it under pin (default: the first peers met are trusted)",
		},
	}
}

// training are settings of what trains.
func (s *Settings) training() []setting {
	return []setting{
		{
			"trainer",
			nil,
			sources.Var(&s.Trainer, "trainer", readTrainer, sources.Plain),
			"what trains: builtin:gpt (a small byte-level transformer), attach " +
				"(processes of yours, which attach to this one; -- COMMAND starts them), none (vote and serve " +
				"only), or the path of a shared library with a trainer, like ./mine.so",
		},
		{"trainer-config", ofPlugin, &s.TrainerConfig, "`file` whose text a trainer from a shared library " +
			"is made from"},
		{"trainer-timeout", ofProcess, &s.TrainerTimeout, "how long a trainer that attaches, or one from a shared " +
			"library, may make no progress before it counts as hung"},
		{"trainer-return", ofAttach, &s.TrainerReturn, "how long the peer stays a member, and waits, when the " +
			"processes of a trainer that attached are gone"},
		{"model", ofGPT, &s.Model, "sizes of builtin:gpt, the same on all peers, and its inner optimizer: " +
			modelKeys() + " (default layers=1,width=96,heads=4,context=32,batch=32,optimizer=adamw)"},
		{"threads", ofGPT, &s.Threads, "cores that builtin:gpt uses; 0: all"},
		{"data", ofGPT, &s.Data, "text `file or folder` to train on, may be repeated (default the " +
			"Go standard library's source, where Go is installed)"},
		{"init", initial, &s.cfg.InitFile, "found the run from this .safetensors `file`: all founders " +
			"must have the same one, peers that join later need none"},
		{"pause", ofTests, &s.Pause, "rest after the inner steps of each round"},
		{"gate", ofTests, &s.Gate, "`file` with the newest slot to train for; when it has passed, wait until the " +
			"file names a later one"},
		{"step-time", ofTests, &s.StepTime, "how long an inner step lasts at least"},
		{"held-out", ofTests, &s.HeldOut, "sequences that losses are measured on (default 128)"},
	}
}

// keeping are settings of what is kept, sent and told.
func (s *Settings) keeping() []setting {
	return []setting{
		{"peer-name", nil, &s.cfg.PeerName, "what all members call this peer beside its ID: a `text` of at most 24 " +
			"letters, digits, spaces and -_.:+/@()# (default the machine's name, without its domain)"},
		{"data-dir", nil, &s.DataDir, "`directory` for identity, votes and checkpoints; started with it again, the " +
			"peer is the same member (default one under the user's state directory)"},
		{"linger", nil, sources.Var(&s.linger, "duration or forever", readLinger, showLinger), "`duration` for which " +
			"to serve the final model to members that do not show that they have it (default 30s with --preset " +
			"lan, 10m with wan); forever: stay until the peer is stopped, and serve the model to all that come"},
		{"checkpoint-every", nil, &s.cfg.CheckpointEvery, "rounds between checkpoints; one is also made at the end"},
		{"keep-checkpoints", nil, &s.cfg.KeepCheckpoints, "newest certified checkpoints kept, with the rounds since"},
		{"state-rate", nil, &s.stateRate, "`megabytes` a second given at most to peers that fetch the state " +
			"(default 4 a core)"},
		{"newcomer-states", nil, &s.cfg.NewcomerStates, "full states given in an hour to one peer that was no member " +
			"of the open run yet; below 0: no limit (default 3)"},
		{"site-newcomers", nil, &s.cfg.SiteNewcomers, "such peers served in an hour at one address, which get as " +
			"many states together; below 0: no limit (default 128)"},
		{"max-upload", nil, &s.maxUpload, "`rate` of what is sent at most for the all-reduce and for peers that " +
			"fetch the state, like 20mbit; other traffic is never delayed (default no limit)"},
		{"max-download", nil, &s.maxDownload, "`rate` at which contributions, outcomes and states are taken in at " +
			"most, like 50mbit; other traffic is never delayed (default no limit)"},
		{"track", nil, sources.Var(&s.Track, "tracker", readTrack, sources.Plain), "write each slot to an event " +
			"file of TensorBoard (tensorboard:FOLDER), or to a file of lines of JSON like metrics.jsonl (jsonl:FILE)"},
		{"events", nil, &s.Events, "append events to this `file`, one JSON object a line"},
		{"events-size", nil, &s.EventsSize, "`megabytes` of an events file at most; then it is renamed to FILE.1, " +
			"the one before to FILE.2, and so on; 0: no limit"},
		{"events-keep", nil, &s.EventsKeep, "`number` of full events files kept, the oldest goes first"},
		{"api", nil, &s.API, "`address` of the status API: unix:PATH, a loopback HOST:PORT, where a request must " +
			"bear the token in the data directory, or off (default a socket in the data directory)"},
		{"metrics", nil, &s.Metrics, "`address` where Prometheus may read metrics, HOST:PORT or unix:PATH; in " +
			"a private run with the token in metrics.token (they are at /metrics of the status API anyway)"},
		{"dashboard", nil, bare{&s.Dashboard, UsualPage}, "serve the page of p2pdiloco dashboard while the peer " +
			"runs, at a loopback `address`, as in --dashboard=127.0.0.1:0; without one, where that command has it"},
		{"json", nil, &s.JSON, "print one JSON document to stdout (join: about this peer's part, at the " +
			"end), everything else to stderr"},
		{"quiet", nil, &s.Quiet, "print warnings and errors alone, and no line a slot"},
		{"log-level", nil, s.LogLevel.Flag(), LogLevelUsage},
	}
}

// flagOf is the flag of a field of the run spec.
func flagOf(field string) string {
	if field == "name" {
		return "run"
	}
	return sources.Flag(field)
}

// register makes a flag of a setting; its default is the value that it has.
func (d setting) register(fs *pflag.FlagSet) {
	switch p := d.value.(type) {
	case *string:
		fs.StringVar(p, d.name, *p, d.usage)
	case *[]string:
		fs.StringArrayVar(p, d.name, *p, d.usage)
	case *bool:
		fs.BoolVar(p, d.name, *p, d.usage)
	case *int:
		fs.IntVar(p, d.name, *p, d.usage)
	case *int64:
		fs.Int64Var(p, d.name, *p, d.usage)
	case *uint64:
		fs.Uint64Var(p, d.name, *p, d.usage)
	case *time.Duration:
		fs.DurationVar(p, d.name, *p, d.usage)
	case bare:
		fs.StringVar(p.text, d.name, *p.text, d.usage)
		fs.Lookup(d.name).NoOptDefVal = p.alone
	case pflag.Value:
		fs.Var(p, d.name, d.usage)
	}
	fs.Lookup(d.name).Hidden = d.use == ofTests
}
