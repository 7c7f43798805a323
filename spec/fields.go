package spec

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// Field is one field of a spec as text.
type Field struct {
	// Name is what TOML files, hellos and errors call it. Its flag has - in place of _; the name's
	// own flag is --run.
	Name    string
	Default string // empty where it depends on other fields or is required
	// Help is that of its flag, with what the value is called in backquotes; empty: it has no flag.
	Help  string
	At    func(*Spec) any          // pointer to the field: *string, *uint64 or *[]uint64
	check func(text string) string // returns what is allowed, or "" if the text is
}

// Table is the table of all fields, in the order of the canonical encoding.
func Table() []Field { return slices.Clone(table) }

var table = []Field{
	{
		Name: "name", At: func(s *Spec) any { return &s.Name }, check: checkName,
		Help: "`name` of the run: peers that give the same name find each other",
	},
	{Name: "nonce", At: func(s *Spec) any { return &s.Nonce }},
	{
		Name: "protocol", At: func(s *Spec) any { return &s.Protocol }, Default: ProtocolVersion,
		check: oneOf(ProtocolVersion),
	},
	{Name: "kernel", At: func(s *Spec) any { return &s.Kernel }, Default: KernelVersion, check: oneOf(KernelVersion)},
	{
		Name: "mode", At: func(s *Spec) any { return &s.Mode }, Default: ModeSync,
		check: oneOf(ModeSync, ModeDelayed, ModeEager, ModeStreaming, ModeAsync),
		Help: "`how` rounds follow each other: sync; delayed or eager, in which the reduction runs beside the " +
			"next inner steps; streaming, in which parts of the model take turns; or async, which is eager " +
			"without waiting for slow peers (founder's default sync)",
	},
	{
		Name: "rounds", At: func(s *Spec) any { return &s.Rounds }, Default: "100", check: upTo(math.MaxUint32),
		Help: "rounds of the run (founder's default 100)",
	},
	{
		Name: "inner_steps", At: func(s *Spec) any { return &s.InnerSteps }, Default: "500", check: upTo(MaxSteps),
		Help: "training steps of a peer between two rounds (founder's default 500)",
	},
	{
		Name: "outer", At: func(s *Spec) any { return &s.Outer }, Default: outeropt.Nesterov,
		check: oneOf(outeropt.Names()...),
		Help: "outer `optimizer`: nesterov, sgd, delayed_nesterov or adam (founder's default nesterov; sgd in " +
			"mode async)",
	},
	{
		Name: "outer_lr", At: func(s *Spec) any { return &s.OuterLR }, Default: defaultLR, check: decimal(1e-6, 100),
		Help: "outer learning rate, a `decimal` (founder's default 0.7; 0.01 for adam)",
	},
	{
		Name: "momentum", At: func(s *Spec) any { return &s.Momentum }, Default: "0.9", check: decimal(0, 0.9999),
		Help: "outer momentum, a `decimal`; beta1 of adam (founder's default 0.9; 0 for sgd, and in overlapped " +
			"modes unless delayed_nesterov, which has 0.6 in mode async)",
	},
	{
		Name: "dn_every", At: func(s *Spec) any { return &s.DNEvery }, Default: "4", check: upTo(1 << 20),
		Help: "rounds from one use of the momentum to the next, with --outer delayed_nesterov (founder's " +
			"default 4; 2 in mode async)",
	},
	{
		Name: "beta2", At: func(s *Spec) any { return &s.Beta2 }, Default: "0.99", check: decimal(0.0001, 0.999999),
		Help: "beta2 of --outer adam, a `decimal` (founder's default 0.99)",
	},
	{
		Name: "fragments", At: func(s *Spec) any { return &s.Fragments }, Default: "1", check: upTo(slot.MaxFragments),
		Help: "parts of the model, of which each slot reduces one in turn: that much less is sent at a time; " +
			"for mode streaming (founder's default 1)",
	},
	{
		Name: "fragment_order", At: func(s *Spec) any { return &s.FragmentOrder }, Default: OrderStrided,
		check: oneOf(OrderStrided, OrderSequential),
		Help: "`how` tensors are put into fragments: strided over the layers, or sequential (founder's default " +
			"strided)",
	},
	{
		Name: "fragment_delay", At: func(s *Spec) any { return &s.FragmentDelay }, Default: "0",
		check: upToText(MaxSteps),
		Help: "inner `steps` after which a part of the model that was sent off lands again, in mode streaming " +
			"(founder's default a tenth of the inner steps)",
	},
	{
		Name: "fragment_alpha", At: func(s *Spec) any { return &s.FragmentAlpha }, Default: "0",
		check: decimal(0, 0.9999),
		Help: "how much of what was trained stays where a part of the model lands, a `decimal` below 1, in mode " +
			"streaming (founder's default 0)",
	},
	{
		Name: "pace", At: func(s *Spec) any { return &s.Pace }, Default: PaceSteps,
		check: oneOf(PaceSteps, PaceDyLU, PaceDeadline),
		Help: "`how` many inner steps a peer does in a round: steps, the same for all; dylu, by measured speed; " +
			"deadline, as many as it can in --round-time (founder's default steps; dylu in mode async)",
	},
	{
		Name: "round_time", At: func(s *Spec) any { return &s.RoundTime }, Default: "0", check: decimal(0, 1e6),
		Help: "`seconds` of a round with --pace deadline, a decimal",
	},
	{
		Name: "aggregator", At: func(s *Spec) any { return &s.Aggregator }, Default: "trimmed_mean",
		check: oneOf("mean", "trimmed_mean", "median"),
		Help:  "`how` contributions are combined: mean, trimmed_mean or median (founder's default trimmed_mean)",
	},
	{
		Name: "trim_permille", At: func(s *Spec) any { return &s.TrimPermille }, Default: "200", check: upTo(499),
		Help: "of the contributors, cut from each end by trimmed_mean (founder's default 200)",
	},
	{
		Name: "clip", At: func(s *Spec) any { return &s.Clip }, check: oneOf("on", "off"),
		Help: "`on` or off: scale contributions to at most the median norm (founder's default: on unless mean)",
	},
	{
		Name: "codec", At: func(s *Spec) any { return &s.Codec }, Default: codec.F32, check: oneOf(Codecs()...),
		Help: "`how` pseudo-gradients travel: f32; bf16, int8 or int4, of fewer bits; or sign, of one. What is " +
			"lost is made up for later (founder's default f32)",
	},
	{
		Name: "schedule", At: func(s *Spec) any { return &s.Schedule }, Default: "rotation",
		check: oneOf("auto", "rotation", "ring"),
		Help: "`how` contributions meet: rotation, each part at its owner, who sees all values; ring, from " +
			"neighbour to neighbour, for groups that trust each other's software and keep running; or auto: " +
			"of a mean, by what can be reached and is cheaper (founder's default rotation)",
	},
	{Name: "frame", At: func(s *Spec) any { return &s.Frame }, check: frameSize},
	{Name: "init", At: func(s *Spec) any { return &s.Init }, Default: "founder", check: checkInit},
	{
		Name: "seed", At: func(s *Spec) any { return &s.Seed }, Default: "1",
		Help: "of the initial model and of the data's division among the peers (founder's default 1)",
	},
	{
		Name: "start_peers", At: func(s *Spec) any { return &s.StartPeers }, Default: "1", check: upTo(slot.MaxMembers),
		Help: "members the first round waits for (founder's default 1)",
	},
	{
		Name: "min_peers", At: func(s *Spec) any { return &s.MinPeers }, Default: "1", check: upTo(slot.MaxMembers),
		Help: "contributors with which a round may close (founder's default 1)",
	},
	{
		Name: "max_weight", At: func(s *Spec) any { return &s.MaxWeight }, Default: strconv.Itoa(1 << 40),
		check: upTo(1 << 56),
	},
	{Name: "discount", At: func(s *Spec) any { return &s.Discount }, Default: "1000"},
	{
		Name: "access", At: func(s *Spec) any { return &s.Access }, Default: AccessOpen,
		check: oneOf(AccessOpen, AccessPrivate),
		Help: "`who` may take part: open, or private, for peers with a ticket or the admission secret alone " +
			"(founder's default open)",
	},
}

// Text is the field's value in a spec; empty if it was not given.
func (f Field) Text(s Spec) string { return fieldText(f.At(&s)) }

// Set gives the field of a spec the value that the text says.
func (f Field) Set(s *Spec, text string) error { return setField(f.At(s), text) }

// Fields lists the fields that were given (are not zero) as text.
func (s Spec) Fields() map[string]string {
	m := make(map[string]string)
	for _, f := range table {
		if v := f.Text(s); v != "" {
			m[f.Name] = v
		}
	}
	return m
}

func fieldText(p any) string {
	switch p := p.(type) {
	case *string:
		return *p
	case *uint64:
		if *p != 0 {
			return strconv.FormatUint(*p, 10)
		}
	case *[]uint64:
		var parts []string
		for _, v := range *p {
			parts = append(parts, strconv.FormatUint(v, 10))
		}
		return strings.Join(parts, ",")
	}
	return ""
}

func setField(p any, text string) (err error) {
	switch p := p.(type) {
	case *string:
		*p = text
	case *uint64:
		*p, err = strconv.ParseUint(text, 10, 64)
	case *[]uint64:
		*p = nil
		if text == "" {
			return nil // no number was given
		}
		for part := range strings.SplitSeq(text, ",") {
			v, perr := strconv.ParseUint(part, 10, 64)
			*p, err = append(*p, v), errors.Join(err, perr)
		}
	}
	return err
}
