package spec

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// Field is one field of a spec as text.
type Field struct {
	// Name is what TOML files, hellos and errors call it: that of the field in Go, in small letters
	// and with _ between words. Its flag has - in place of _; the name's own flag is --run.
	Name    string
	Default string                   // empty where it depends on other fields or is required
	check   func(text string) string // returns what is allowed, or "" if the text is
	// Help is that of its flag, with what the value is called in backquotes; empty: it has no flag.
	Help string
}

// Table is the table of all fields, in the order of the canonical encoding.
func Table() []Field { return slices.Clone(table) }

// Each field has its name, its default, its check, and the help of its flag.
var table = []Field{
	{
		"name", "", checkName,
		"`name` of the run: peers that give the same name find each other",
	},
	{"nonce", "", nil, ""},
	{"protocol", ProtocolVersion, oneOf(ProtocolVersion), ""},
	{"kernel", KernelVersion, checkKernel, ""},
	{
		"mode", ModeSync,
		oneOf(ModeSync, ModeDelayed, ModeEager, ModeStreaming, ModeAsync),
		"`mode`: how rounds follow each other: sync; delayed or eager, which reduce beside the next inner steps; " +
			"streaming, in which fragments of the model take turns; or async, eager without waiting for slow peers " +
			"(founder's default sync)",
	},
	{
		"rounds", "100", integer(1, math.MaxUint32),
		"rounds of the run (founder's default 100)",
	},
	{
		"inner_steps", "500", integer(1, MaxSteps),
		"inner `steps` of a round, H (founder's default 500)",
	},
	{
		"outer", outeropt.Nesterov, checkOuter,
		"outer `optimizer`: nesterov, sgd, delayed_nesterov or adam (founder's default nesterov; sgd in " +
			"mode async)",
	},
	{
		"outer_lr", defaultLR, decimal(1e-6, 100),
		"outer learning rate, a `decimal` (founder's default 0.7; 0.01 for adam)",
	},
	{
		"momentum", "0.9", decimal(0, 0.9999),
		"outer momentum, a `decimal`; beta1 of adam (founder's default 0.9; 0 for sgd, and in overlapped " +
			"modes unless delayed_nesterov, which has 0.6 in mode async)",
	},
	{
		"dn_every", "4", integer(1, 1<<20),
		"contributions from one use of the momentum to the next, with --outer delayed_nesterov (founder's default 4)",
	},
	{
		"beta2", "0.99", decimal(0.0001, 0.999999),
		"beta2 of --outer adam, a `decimal` (founder's default 0.99)",
	},
	{
		"fragments", "1", integer(1, slot.MaxFragments),
		"fragments of the model, of which each slot reduces one in turn: that much less is sent at a time; " +
			"for mode streaming (founder's default 1)",
	},
	{
		"fragment_order", OrderStrided,
		oneOf(OrderStrided, OrderSequential),
		"`order` in which tensors are put into fragments: strided over the layers, or sequential (founder's default " +
			"strided)",
	},
	{
		"fragment_delay", "0", integer(0, MaxSteps),
		"inner `steps` after which a fragment of the model that was sent off lands again, in mode streaming " +
			"(founder's default a tenth of the inner steps)",
	},
	{
		"fragment_alpha", "0", decimal(0, 1),
		"how much of what was trained stays where a fragment of the model lands, a `decimal` up to 1, in mode " +
			"streaming (founder's default 0)",
	},
	{
		"pace", PaceSteps, oneOf(PaceSteps, PaceDyLU),
		"`pace`: how many inner steps a peer does in a round: steps, the same for all; or dylu, by measured speed " +
			"(founder's default steps; dylu in mode async)",
	},
	{
		"aggregator", "trimmed_mean",
		oneOf("mean", "trimmed_mean", "median"),
		"`aggregator`: how contributions are combined: mean, trimmed_mean or median (founder's default trimmed_mean)",
	},
	{
		"trim_permille", "200", integer(1, 499),
		"how many `per mille` of the contributors trimmed_mean leaves out at each end (founder's default 200)",
	},
	{
		"clip", "", oneOf("on", "off"),
		"`on|off`: scale contributions to at most the median norm (founder's default: on unless mean)",
	},
	{
		"codec", codec.F32, checkCodec,
		"`codec`: how pseudo-gradients travel: f32, bf16, int8, int4, sign; or topk, the 64 largest of each 4096 " +
			"values at 2 bits, and topk:K:BITS (founder's default f32)",
	},
	{
		"schedule", "rotation", oneOf("auto", "rotation", "ring"),
		"`schedule`: how contributions are combined: rotation, in which the owner of a piece sees all values; ring, " +
			"in which sums go from neighbour to neighbour, for groups that trust each other; or auto: of a mean, the " +
			"cheaper one (founder's default rotation)",
	},
	{"frame", "", frameSize, ""},
	{"init", "founder", checkInit, ""},
	{
		"seed", "1", nil,
		"number from which the initial model and the data's division among the peers follow (founder's default 1)",
	},
	{
		"start_peers", "1", integer(1, slot.MaxMembers),
		"members the first round waits for (founder's default 1)",
	},
	{
		"min_peers", "1", integer(1, slot.MaxMembers),
		"contributors with which a round may close (founder's default 1)",
	},
	{"max_weight", strconv.Itoa(1 << 40), integer(1, 1<<56), ""},
	{
		"max_weight_ratio", "", integer(0, 1<<16),
		"most weight of a contribution, as a `ratio` to the median weight of the last 16 rounds; 0: no limit " +
			"(founder's default 8 with trust byzantine, else 0)",
	},
	{"discount", "1000", nil, ""},
	{
		"access", AccessOpen, oneOf(AccessOpen, AccessPrivate),
		"`access`: who may take part: open, or private, for peers with a ticket or the admission secret alone " +
			"(founder's default open)",
	},
	{
		"trust", "", oneOf(TrustCrash, TrustByzantine),
		"`trust`: what the run withstands: byzantine, from 4 members with a vote on, fewer than a third that lie or " +
			"are gone; or crash, members that die, while a majority lives, and no liar (founder's default byzantine; " +
			"crash in private runs, and with --schedule ring)",
	},
	{
		"founders", "", nil,
		"`peer` that founds the run, may be repeated: more than half of them must sign its first record " +
			"(founder's default: with trust byzantine the peer that settles the run's settings, else any " +
			"peer)",
	},
	{
		"max_electors", "31", integer(1, maxElectors),
		"with trust byzantine, members with a vote, at most (founder's default 31)",
	},
	{
		"newcomer_share", "500", integer(1, 1000),
		"with trust byzantine, the most newcomers in a round, a `number` for each 1000 of its other contributors " +
			"(500: a third of all); one is always taken (founder's default 500)",
	},
	{
		"audit_samples", "", samplesText,
		"with trust byzantine, the `number` of audit samples of each piece that a quorum checks, or all; fewer where " +
			"they cost more than a twentieth of a round's bytes (founder's default 24 with trust byzantine, else 0)",
	},
	{
		"term_cap", "1h", wholeSeconds(time.Second, 7*24*time.Hour),
		"longest `duration` of one leader's term, like 90m. It must be longer than the slowest reduction (founder's " +
			"default 1h)",
	},
	{
		"outcome_codec", "", checkOutcomeCodec,
		"`codec` in which what was reduced travels back, without sign (founder's default: that of --codec; int4 for " +
			"sign; for topk the union of 4 or --start-peers contributions at 4 bits, while that has at most 1024 " +
			"values, else int4)",
	},
}

// At returns a pointer to the field: *string, *uint64, *[]uint64, *time.Duration or
// *[]trainer.PeerID.
func (f Field) At(s *Spec) any {
	name := strings.ReplaceAll(f.Name, "_", "")
	return reflect.ValueOf(s).Elem().FieldByNameFunc(func(field string) bool {
		return strings.EqualFold(field, name)
	}).Addr().Interface()
}

// mayLack says whether a settled spec may leave the field empty.
func (f Field) mayLack() bool { return f.Name == "nonce" || f.Name == "founders" || f.added() }

// added says whether the field came after the first release of this protocol version: a spec that
// leaves it empty is encoded without it, so that its hash stays.
func (f Field) added() bool { return f.Name == "outcome_codec" }

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

// FromFields is the spec of which Fields returned the list. What cannot be read is left out.
func FromFields(fields map[string]string) (s Spec) {
	for _, f := range table {
		_ = f.Set(&s, fields[f.Name])
	}
	return s
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
	case *time.Duration:
		return brief(*p)
	case *[]trainer.PeerID: // in one order: it is a set
		var parts []string
		for _, v := range slices.Sorted(slices.Values(*p)) {
			parts = append(parts, v.String())
		}
		return strings.Join(slices.Compact(parts), ",")
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
	case *[]trainer.PeerID:
		*p = nil
		if text == "" {
			return nil
		}
		for part := range strings.SplitSeq(text, ",") {
			v, perr := trainer.ParsePeerID(part)
			*p, err = append(*p, v), errors.Join(err, perr)
		}
		slices.Sort(*p)
	case *time.Duration:
		*p, err = time.ParseDuration(text)
	}
	return err
}

// brief is the one spelling of a duration in a spec: that of the time package, without parts that
// are zero (1h, 1h30m); empty for 0, which stands for not given.
func brief(d time.Duration) string {
	if d == 0 {
		return ""
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
