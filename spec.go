package p2pdiloco

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/membership"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
)

// Spec is the run spec: what all peers of a run must agree on. It is immutable; its hash is the run ID.
//
// A zero field is one not given: whoever founds the run fills it with its default, whoever joins adopts the run's value, and
// a field that was given and differs from the run's is refused by name. Numbers are integers (per mille where a fraction is
// meant) or decimal strings that are parsed once to float32, so that no peer rounds them differently.
type Spec struct {
	Name          string   `toml:"name"`           // of the run; keys discovery
	Nonce         uint64   `toml:"nonce"`          // tells runs of one name and equal settings apart
	Protocol      string   `toml:"protocol"`       // wire and ledger rules
	Kernel        string   `toml:"kernel"`         // arithmetic whose bits must agree
	Mode          string   `toml:"mode"`           // sync | delayed | eager | streaming | async
	Rounds        uint64   `toml:"rounds"`         // after which the run ends; default 100
	InnerSteps    uint64   `toml:"inner_steps"`    // H, inner steps a round
	Outer         string   `toml:"outer"`          // outer optimizer: nesterov | sgd | delayed_nesterov | adam
	OuterLR       string   `toml:"outer_lr"`       // decimal
	Momentum      string   `toml:"momentum"`       // decimal; of adam beta1
	DNEvery       uint64   `toml:"dn_every"`       // delayed_nesterov: slots from one use of the momentum to the next
	Beta2         string   `toml:"beta2"`          // adam: decimal
	Fragments     uint64   `toml:"fragments"`      // P: parts of the vector, of which a slot updates one
	FragmentOrder string   `toml:"fragment_order"` // strided | sequential: how tensors are put into fragments
	FragmentDelay string   `toml:"fragment_delay"` // tau, an integer: inner steps after which a fragment's slot lands (mode streaming)
	FragmentAlpha string   `toml:"fragment_alpha"` // decimal: how much of the live parameters stays there (mode streaming)
	Pace          string   `toml:"pace"`           // steps | dylu | deadline: how many inner steps a peer does
	RoundTime     string   `toml:"round_time"`     // pace deadline: seconds of a round, decimal
	Aggregator    string   `toml:"aggregator"`     // mean | trimmed_mean | median
	TrimPermille  uint64   `toml:"trim_permille"`  // of the contributors, cut from each end
	Clip          string   `toml:"clip"`           // on | off: scale each contribution to at most the median norm
	Codec         string   `toml:"codec"`          // f32 | bf16 | int8 | int4 | sign: how pseudo-gradients travel
	Schedule      string   `toml:"schedule"`       // rotation | ring | auto: how contributions meet
	Frame         uint64   `toml:"frame"`          // elements of the frame grid
	Init          string   `toml:"init"`           // founder | root:HASH of the initial state
	Seed          uint64   `toml:"seed"`           // of the data's order, and of a new model
	StartPeers    uint64   `toml:"start_peers"`    // the first slot waits for so many members
	MinPeers      uint64   `toml:"min_peers"`      // contributors with which a slot may close
	MaxWeight     uint64   `toml:"max_weight"`     // cap of one contribution's weight, in tokens
	Discount      []uint64 `toml:"discount"`       // per mille, by staleness in slots; its length less one is the greatest staleness
	Access        string   `toml:"access"`         // open | private: who may take part

	Layout Layout `toml:"-"` // the model's tensors; comes from the trainer
}

// Codecs are the values that Spec.Codec may have: f32 loses nothing, the others something, for fewer bytes (docs/protocol.md, section 5).
func Codecs() []string { return codec.Names() }

// Values of this version: p2p.Version and kernel.Version, as a spec spells them.
const (
	ProtocolVersion = "1"
	KernelVersion   = "1"
)

// specField is one field of a spec as text: under this name it stands in TOML files, in hellos and in errors.
type specField struct {
	name   string
	at     func(*Spec) any // pointer to the field
	preset string          // default; empty where it depends on other fields or is required
	check  func(s string) string
}

var specFields = []specField{
	{"name", func(s *Spec) any { return &s.Name }, "", checkName},
	{"nonce", func(s *Spec) any { return &s.Nonce }, "", nil},
	{"protocol", func(s *Spec) any { return &s.Protocol }, ProtocolVersion, oneOf(ProtocolVersion)},
	{"kernel", func(s *Spec) any { return &s.Kernel }, KernelVersion, oneOf(KernelVersion)},
	{"mode", func(s *Spec) any { return &s.Mode }, ModeSync, oneOf(ModeSync, ModeDelayed, ModeEager, ModeStreaming, ModeAsync)},
	{"rounds", func(s *Spec) any { return &s.Rounds }, "100", upTo(math.MaxUint32)},
	{"inner_steps", func(s *Spec) any { return &s.InnerSteps }, "500", upTo(1 << 30)},
	{"outer", func(s *Spec) any { return &s.Outer }, outeropt.Nesterov, oneOf(outeropt.Names()...)},
	{"outer_lr", func(s *Spec) any { return &s.OuterLR }, defaultLR, decimal(1e-6, 100)},
	{"momentum", func(s *Spec) any { return &s.Momentum }, "0.9", decimal(0, 0.9999)},
	{"dn_every", func(s *Spec) any { return &s.DNEvery }, "4", upTo(1 << 20)},
	{"beta2", func(s *Spec) any { return &s.Beta2 }, "0.99", decimal(0.0001, 0.999999)},
	{"fragments", func(s *Spec) any { return &s.Fragments }, "1", upTo(slot.MaxFragments)},
	{"fragment_order", func(s *Spec) any { return &s.FragmentOrder }, OrderStrided, oneOf(OrderStrided, OrderSequential)},
	{"fragment_delay", func(s *Spec) any { return &s.FragmentDelay }, "0", upToText(1 << 30)},
	{"fragment_alpha", func(s *Spec) any { return &s.FragmentAlpha }, "0", decimal(0, 0.9999)},
	{"pace", func(s *Spec) any { return &s.Pace }, PaceSteps, oneOf(PaceSteps, PaceDyLU, PaceDeadline)},
	{"round_time", func(s *Spec) any { return &s.RoundTime }, "0", decimal(0, 1e6)},
	{"aggregator", func(s *Spec) any { return &s.Aggregator }, "trimmed_mean", oneOf("mean", "trimmed_mean", "median")},
	{"trim_permille", func(s *Spec) any { return &s.TrimPermille }, "200", upTo(499)},
	{"clip", func(s *Spec) any { return &s.Clip }, "", oneOf("on", "off")},
	{"codec", func(s *Spec) any { return &s.Codec }, codec.F32, oneOf(Codecs()...)},
	{"schedule", func(s *Spec) any { return &s.Schedule }, "rotation", oneOf("auto", "rotation", "ring")},
	{"frame", func(s *Spec) any { return &s.Frame }, "", frameSize},
	{"init", func(s *Spec) any { return &s.Init }, "founder", checkInit},
	{"seed", func(s *Spec) any { return &s.Seed }, "1", nil},
	{"start_peers", func(s *Spec) any { return &s.StartPeers }, "1", upTo(slot.MaxMembers)},
	{"min_peers", func(s *Spec) any { return &s.MinPeers }, "1", upTo(slot.MaxMembers)},
	{"max_weight", func(s *Spec) any { return &s.MaxWeight }, strconv.Itoa(1 << 40), upTo(1 << 56)},
	{"discount", func(s *Spec) any { return &s.Discount }, "1000", nil},
	{"access", func(s *Spec) any { return &s.Access }, AccessOpen, oneOf(AccessOpen, AccessPrivate)},
}

// Defaults of outer_lr.
const (
	defaultLR     = "0.7"
	defaultAdamLR = "0.01"
)

// Frames of the default grid hold 64 Ki elements (256 KiB in f32), fewer in small models so that every peer has some.
const (
	maxFrame     = 1 << 16
	minFrame     = 1 << 10
	framesWanted = 64
)

func defaultFrame(elements uint64) uint64 {
	f := uint64(maxFrame)
	for f > minFrame && f*framesWanted > elements {
		f /= 2
	}
	return f
}

// Fields lists the fields that were given (are not zero) as text.
func (s Spec) Fields() map[string]string {
	m := make(map[string]string)
	for _, f := range specFields {
		if v := fieldText(f.at(&s)); v != "" {
			m[f.name] = v
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
		for part := range strings.SplitSeq(text, ",") {
			v, perr := strconv.ParseUint(part, 10, 64)
			*p, err = append(*p, v), errors.Join(err, perr)
		}
	}
	return err
}

// Settled returns the spec with every field filled: those given, the defaults for the rest.
func (s Spec) Settled() Spec {
	given := s
	s.Discount = slices.Clone(s.Discount)
	if s.Mode == ModeAsync {
		s.asyncDefaults()
	}
	if s.Momentum == "" && s.withoutMomentum() {
		s.Momentum = "0"
	}
	if s.OuterLR == "" && s.Outer == outeropt.Adam { // its steps have the rate's size, whatever the pseudo-gradient's
		s.OuterLR = defaultAdamLR
	}
	for _, f := range specFields {
		if p := f.at(&s); fieldText(p) == "" && f.preset != "" {
			_ = setField(p, f.preset) // presets parse: a test says so
		}
	}
	if given.FragmentDelay == "" && s.Streams() {
		s.FragmentDelay = strconv.FormatUint(s.defaultDelay(), 10)
	}
	if s.Clip == "" {
		s.Clip = map[bool]string{true: "on", false: "off"}[allreduce.Aggregator(s.Aggregator).DefaultClip()]
	}
	if s.Frame == 0 {
		s.Frame = defaultFrame(s.Layout.Elements() / s.Fragments)
	}
	return s
}

// withoutMomentum says whether the default is no momentum: on what comes a slot late it costs several percent. Delayed Nesterov is made
// for that.
func (s Spec) withoutMomentum() bool {
	return s.Outer == outeropt.SGD || s.Overlaps() && s.Outer != outeropt.DelayedNesterov
}

// Validate reports every fault of the fields given at once; a field not given is no fault, but for the name.
func (s Spec) Validate() error {
	var errs []error
	if s.Name == "" {
		errs = append(errs, &SpecError{Field: "name", Here: `""`, Why: "a run needs a name"})
	}
	for _, f := range specFields {
		v := fieldText(f.at(&s))
		if v == "" || f.check == nil {
			continue
		}
		if why := f.check(v); why != "" {
			errs = append(errs, &SpecError{Field: f.name, Here: v, Why: why})
		}
	}
	for i, d := range s.Discount {
		if d > 1000 || i > 0 && d > s.Discount[i-1] || len(s.Discount) > 64 {
			errs = append(errs, &SpecError{Field: "discount", Here: fieldText(&s.Discount), Why: "up to 64 per-mille values from 1000 down, never rising"})
			break
		}
	}
	if s.MinPeers > s.StartPeers && s.StartPeers > 0 {
		errs = append(errs, &SpecError{Field: "min_peers", Here: strconv.FormatUint(s.MinPeers, 10), Why: "more than start_peers: the first slot could never close"})
	}
	errs = append(errs, s.checkPace()...)
	if s.Mode == ModeEager && (s.Outer == outeropt.Adam || s.Outer == outeropt.DelayedNesterov) {
		errs = append(errs, &SpecError{Field: "outer", Here: s.Outer, Why: "mode eager takes a peer's own part of the step ahead, which only nesterov and sgd can be divided into"})
	}
	errs = append(errs, s.checkFragments()...)
	errs = append(errs, s.checkStreaming()...)
	return errors.Join(errs...)
}

// RunID is the hash of a settled spec: the name that everything but discovery goes by.
func (s Spec) RunID() Root { return slot.Hash(s.Append([]byte("p2pdiloco/spec/1"))) }

// Append appends the canonical encoding of a settled spec.
func (s Spec) Append(b []byte) []byte {
	b = wire.AppendU16(b, uint16(len(specFields)))
	for _, f := range specFields {
		b = wire.AppendBytes(wire.AppendBytes(b, f.name), fieldText(f.at(&s)))
	}
	return s.Layout.Append(b)
}

// ParseSpec reads a settled spec as another peer encoded it.
func ParseSpec(b []byte) (Spec, error) {
	var s Spec
	r := wire.NewReader(b)
	if n := int(r.U16()); r.Err() == nil && n != len(specFields) {
		r.Fail("run spec with %d fields, not %d: another version of p2pdiloco", n, len(specFields))
	}
	for i := 0; i < len(specFields) && r.Err() == nil; i++ {
		f := specFields[i]
		if name := string(r.Bytes(64)); r.Err() == nil && name != f.name {
			r.Fail("run spec field %.64q where %q was expected", name, f.name)
		}
		v := string(r.Bytes(4096))
		if v == "" && f.name != "nonce" {
			r.Fail("run spec without %s", f.name)
		}
		if r.Err() == nil && v != "" {
			if err := setField(f.at(&s), v); err != nil || fieldText(f.at(&s)) != v {
				r.Fail("run spec field %s = %.64q", f.name, v)
			}
		}
	}
	s.Layout = slot.ReadLayout(r)
	if err := r.Done(); err != nil {
		return Spec{}, err
	}
	return s, errors.Join(s.Validate(), s.Layout.Validate())
}

// Adopt checks the fields given here against a settled spec that peer p holds, and names the first that differs.
func (s Spec) Adopt(theirs Spec, p PeerID) error {
	given, there := s.Fields(), theirs.Fields()
	for _, f := range specFields {
		if v, ok := given[f.name]; ok && v != there[f.name] {
			return &SpecError{Field: f.name, Here: v, There: there[f.name], Peer: p}
		}
	}
	if d := s.Layout.Diff(theirs.Layout); d != "" && len(s.Layout) > 0 {
		return &SpecError{Field: "layout", Here: "the trainer's", There: "another (" + d + ")", Peer: p}
	}
	return nil
}

func (s Spec) float(text string) float32 {
	v, err := strconv.ParseFloat(text, 32)
	if err != nil {
		panic(fmt.Sprintf("p2pdiloco: spec was not validated: %v", err))
	}
	return float32(v)
}

// MaxStaleness is how many slots an offer's base may lie behind.
func (s Spec) MaxStaleness() uint64 { return uint64(len(s.Discount)) - 1 }

// params are the spec's values that the all-reduce needs.
func (s Spec) params() allreduce.Params {
	p := allreduce.Params{
		Fragments: s.fragmentElements(), FrameElements: int(s.Frame), Aggregator: allreduce.Aggregator(s.Aggregator),
		TrimPermille: int(s.TrimPermille), Clip: s.Clip == "on", Codec: s.Codec, MinPeers: int(s.MinPeers),
		Schedule: allreduce.Schedule(s.Schedule),
	}
	for _, d := range s.Discount {
		p.Discount = append(p.Discount, uint32(d))
	}
	return p
}

// rules are the spec's values that the ledger needs.
func (s Spec) rules(run Root) membership.Rules {
	var init Root
	if hex, ok := strings.CutPrefix(s.Init, "root:"); ok {
		_ = init.UnmarshalText([]byte(hex)) // validated
	}
	ahead, partSteps := s.dealing()
	return membership.Rules{
		Ahead: ahead, PartSteps: partSteps, Run: run, InitRoot: init, LastSlot: s.LastSlot(), StartPeers: int(s.StartPeers), MinPeers: int(s.MinPeers),
		MaxStaleness: s.MaxStaleness(), MaxWeight: s.MaxWeight, Fragments: s.fragmentElements(), Rings: s.params().Rings(), Private: s.Access == AccessPrivate,
		Pace: membership.PaceRules{InnerSteps: s.InnerSteps, TrimPermille: s.TrimPermille},
	}
}
