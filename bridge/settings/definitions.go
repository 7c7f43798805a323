package settings

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// definition is one setting.
type definition struct {
	name  string // of the flag
	usage string // in backquotes: what help calls the value
	use   use
	at    func(*Settings) any // pointer to the value
}

// use says for whom a setting is. The zero value: for every peer.
type use int

const (
	ofRun     use = iota + 1 // a field of the run spec
	ofProgram                // for who has a command line
	ofTrainer                // for every peer with a trainer of its own
	ofGPT                    // for TrainerGPT
	ofPlugin                 // for a trainer that is a shared library
	ofTests                  // as ofGPT, and not in the help
	initial                  // for who has a model when it founds a run
)

var definitions = []definition{
	{"run", "`name` of the run: peers that give the same name find each other", ofRun, func(s *Settings) any { return &s.spec.Name }},
	{"rounds", "rounds of the run (founder's default 100)", ofRun, func(s *Settings) any { return &s.spec.Rounds }},
	{"inner-steps", "training steps of a peer between two rounds (founder's default 500)", ofRun, func(s *Settings) any { return &s.spec.InnerSteps }},
	{"mode", "`how` rounds follow each other: sync; delayed or eager, in which the reduction runs beside the next inner steps; streaming, in which parts of the model take turns; or async, eager without waiting for who is slow (founder's default sync)", ofRun, func(s *Settings) any { return &s.spec.Mode }},
	{"start-peers", "members the first round waits for (founder's default 1)", ofRun, func(s *Settings) any { return &s.spec.StartPeers }},
	{"min-peers", "contributors with which a round may close (founder's default 1)", ofRun, func(s *Settings) any { return &s.spec.MinPeers }},
	{"pace", "`how` many inner steps a peer does in a round: steps, the same for all; dylu, by measured speed; deadline, as many as it can in --round-time (founder's default steps; dylu in mode async)", ofRun, func(s *Settings) any { return &s.spec.Pace }},
	{"round-time", "`seconds` of a round with --pace deadline, a decimal", ofRun, func(s *Settings) any { return &s.spec.RoundTime }},
	{"aggregator", "`how` contributions are combined: mean, trimmed_mean or median (founder's default trimmed_mean)", ofRun, func(s *Settings) any { return &s.spec.Aggregator }},
	{"trim-permille", "of the contributors, cut from each end by trimmed_mean (founder's default 200)", ofRun, func(s *Settings) any { return &s.spec.TrimPermille }},
	{"clip", "`on` or off: scale contributions to at most the median norm (founder's default: on unless mean)", ofRun, func(s *Settings) any { return &s.spec.Clip }},
	{"codec", "`how` pseudo-gradients travel: f32; bf16, int8 or int4, of fewer bits; or sign, of one. What is lost is made up for later (founder's default f32)", ofRun, func(s *Settings) any { return &s.spec.Codec }},
	{"schedule", "`how` contributions meet: rotation, each part at its owner, who sees all values; ring, from neighbour to neighbour, for groups that trust each other's software and keep running; or auto: of a mean, by what can be reached and is cheaper (founder's default rotation)", ofRun, func(s *Settings) any { return &s.spec.Schedule }},
	{"outer", "outer `optimizer`: nesterov, sgd, delayed_nesterov or adam (founder's default nesterov; sgd in mode async)", ofRun, func(s *Settings) any { return &s.spec.Outer }},
	{"outer-lr", "outer learning rate, a `decimal` (founder's default 0.7; 0.01 for adam)", ofRun, func(s *Settings) any { return &s.spec.OuterLR }},
	{"momentum", "outer momentum, a `decimal`; beta1 of adam (founder's default 0.9; 0 for sgd, and in overlapped modes unless delayed_nesterov, which has 0.6 in mode async)", ofRun, func(s *Settings) any { return &s.spec.Momentum }},
	{"dn-every", "rounds from one use of the momentum to the next, with --outer delayed_nesterov (founder's default 4; 2 in mode async)", ofRun, func(s *Settings) any { return &s.spec.DNEvery }},
	{"beta2", "beta2 of --outer adam, a `decimal` (founder's default 0.99)", ofRun, func(s *Settings) any { return &s.spec.Beta2 }},
	{"fragments", "parts of the model, of which each slot reduces one in turn: that much less is sent at a time; for mode streaming (founder's default 1)", ofRun, func(s *Settings) any { return &s.spec.Fragments }},
	{"fragment-order", "`how` tensors are put into fragments: strided over the layers, or sequential (founder's default strided)", ofRun, func(s *Settings) any { return &s.spec.FragmentOrder }},
	{"fragment-delay", "inner `steps` after which a part of the model that was sent off lands again, in mode streaming (founder's default a tenth of the inner steps)", ofRun, func(s *Settings) any { return &s.spec.FragmentDelay }},
	{"fragment-alpha", "how much of what was trained stays where a part of the model lands, a `decimal` below 1, in mode streaming (founder's default 0)", ofRun, func(s *Settings) any { return &s.spec.FragmentAlpha }},
	{"seed", "of the initial model and of the data's division among the peers (founder's default 1)", ofRun, func(s *Settings) any { return &s.spec.Seed }},
	{"spec", "TOML `file` with the run spec; settings given beside it win", 0, func(s *Settings) any { return &s.specFile }},
	{"access", "`who` may take part: open, or private, for those with a ticket or the admission secret alone (founder's default open)", ofRun, func(s *Settings) any { return &s.spec.Access }},
	{"admission-secret", "`file` with the secret of a private run, from the data folder of a peer of it; instead of a ticket (default: who founds a private run makes one)", 0, func(s *Settings) any { return &s.secret }},
	{"allow", "`file` with the IDs of the peers that may take part, one a line, the same for all peers (default: everybody that the run admits)", 0, func(s *Settings) any { return &s.allow }},
	{"follow", "`peer` whose orders to remove or readmit others, or to change the secret, this peer gives, too; may be repeated", 0, func(s *Settings) any { return sources.Peers(&s.follow) }},
	{"ticket", "`text` of an invitation, as p2pdiloco invite prints it: instead of --run, --pin and --bootstrap", 0, func(s *Settings) any { return &s.ticket }},
	{"bootstrap", "`multiaddr` ending in /p2p/PEER to start from, may be repeated (default: look on the local network with mDNS)", 0, func(s *Settings) any { return sources.Addresses(&s.bootstrap) }},
	{"listen", "`multiaddr` to listen on, may be repeated (default any free TCP and UDP port)", 0, func(s *Settings) any { return sources.Addresses(&s.listen) }},
	{"announce", "`multiaddr` that others are told besides those seen, where a router or firewall lets them through to this peer; may be repeated", 0, func(s *Settings) any { return sources.Addresses(&s.announce) }},
	{"no-port-map", "do not ask the router (UPnP, NAT-PMP) to forward this peer's ports, as is done with --preset wan", 0, func(s *Settings) any { return &s.noPortMap }},
	{"no-relaying", "do not relay for members of the run that cannot connect to each other, as a peer does that can be reached from everywhere", 0, func(s *Settings) any { return &s.noRelaying }},
	{"found", "found the run even if no bootstrap address answers", 0, func(s *Settings) any { return &s.found }},
	{"preset", "timing, the same for all peers of a run: lan (one machine or building) or wan (the internet) (default: as the run's peers have it; wan for who founds it)", 0, func(s *Settings) any { return &s.preset }},
	{"on-quorum-loss", "when too few members are left to decide: continue without the others after a while, or pause until p2pdiloco recover", 0, func(s *Settings) any { return &s.onLoss }},
	{"pin", "`hash` of a record that the run's chain must have, as the status of a peer that is trusted shows it under tip (default: the first peers met are trusted)", 0, func(s *Settings) any { return &s.pin }},
	{"trainer", "what trains: builtin:gpt (a small byte-level transformer), none (vote and serve only), or the path of a shared library with a trainer, like ./mine.so", ofTrainer, func(s *Settings) any { return &s.Trainer }},
	{"trainer-config", "`file` whose text, JSON, a trainer from a shared library is made from", ofPlugin, func(s *Settings) any { return &s.TrainerConfig }},
	{"trainer-timeout", "how long a trainer from a shared library may make no progress before it counts as hung", ofPlugin, func(s *Settings) any { return &s.TrainerTimeout }},
	{"model", "sizes of builtin:gpt, the same on all peers: " + modelKeys() + " (default layers=1,width=96,heads=4,context=32,batch=32)", ofGPT, func(s *Settings) any { return &s.Model }},
	{"threads", "cores that builtin:gpt uses", ofGPT, func(s *Settings) any { return &s.Threads }},
	{"data", "text `file or folder` to train on, may be repeated (default the Go standard library's source)", ofGPT, func(s *Settings) any { return sources.Paths(&s.Data) }},
	{"init", "found the run from this .safetensors `file`: who founds it must have the same one, who joins later needs none", initial, func(s *Settings) any { return &s.init }},
	{"data-dir", "`folder` for identity, votes and checkpoints; started with it again, the peer is the same member (default one under the user's state folder)", 0, func(s *Settings) any { return &s.DataDir }},
	{"checkpoint-every", "rounds between checkpoints; one is also made at the end", 0, func(s *Settings) any { return &s.every }},
	{"keep-checkpoints", "newest certified checkpoints kept, with the rounds since", 0, func(s *Settings) any { return &s.keep }},
	{"state-rate", "`megabytes` a second given at most to those who fetch the state (default 4 a core)", 0, func(s *Settings) any { return &s.stateRate }},
	{"newcomer-states", "full states given in an hour to one peer that was no member of the open run yet; below 0: no limit (default 3)", 0, func(s *Settings) any { return &s.newcomers.states }},
	{"site-newcomers", "such peers served in an hour at one address, which get as many states together; below 0: no limit (default 128)", 0, func(s *Settings) any { return &s.newcomers.perSite }},
	{"max-upload", "`rate` of what is sent at most for the all-reduce and for those who fetch the state, like 20mbit; what else is sent counts, and never waits (default no limit)", 0, func(s *Settings) any { return &s.maxUpload }},
	{"max-download", "`rate` at which contributions, outcomes and states are taken in at most, like 50mbit: their senders are held back; what else comes counts, and never waits (default no limit)", 0, func(s *Settings) any { return &s.maxDownload }},
	{"events", "append events to this `file`, one JSON object a line", 0, func(s *Settings) any { return &s.Events }},
	{"api", "`address` of the status API: a loopback HOST:PORT, unix:PATH, or off", 0, func(s *Settings) any { return &s.API }},
	{"metrics", "`address` where Prometheus may read metrics, HOST:PORT or unix:PATH; other machines can reach it if it is no loopback address (they are at /metrics of the status API anyway)", 0, func(s *Settings) any { return &s.Metrics }},
	{"json", "print one JSON document about this peer's part to stdout at the end, everything else to stderr", ofProgram, func(s *Settings) any { return &s.JSON }},
	{"log-level", "of the log on stderr: " + strings.Join(logLevels, ", "), 0, func(s *Settings) any { return &s.LogLevel }},
	{"pause", "rest after the inner steps of each round", ofTests, func(s *Settings) any { return &s.Pause }},
	{"gate", "`file` with the newest slot to train for; when it has passed, wait until the file names a later one", ofTests, func(s *Settings) any { return &s.Gate }},
	{"step-time", "how long an inner step lasts at least", ofTests, func(s *Settings) any { return &s.StepTime }},
	{"held-out", "sequences that losses are measured on (default 128)", ofTests, func(s *Settings) any { return &s.HeldOut }},
}

// register makes a flag of a setting; its default is the value that it has.
func (d definition) register(fs *pflag.FlagSet, s *Settings) {
	switch p := d.at(s).(type) {
	case *string:
		fs.StringVar(p, d.name, *p, d.usage)
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
	case pflag.Value:
		fs.Var(p, d.name, d.usage)
	}
	fs.Lookup(d.name).Hidden = d.use == ofTests
}

// forLibrary says whether an embedding program, which has its own training loop and no command line, may have a setting.
func (d definition) forLibrary() bool { return d.use == 0 || d.use == ofRun || d.use == initial }
