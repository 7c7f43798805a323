package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/cmd/p2pdiloco/internal/specfile"
)

// specFlag is a flag for one field of the run spec. Its help says the default that a founder fills in.
type specFlag struct {
	name, usage string
	at          func(*p2pdiloco.Spec) any
}

var specFlagList = []specFlag{
	{"run", "`name` of the run: peers that give the same name find each other", func(s *p2pdiloco.Spec) any { return &s.Name }},
	{"rounds", "rounds of the run (founder's default 100)", func(s *p2pdiloco.Spec) any { return &s.Rounds }},
	{"inner-steps", "training steps of a peer between two rounds (founder's default 500)", func(s *p2pdiloco.Spec) any { return &s.InnerSteps }},
	{"start-peers", "members the first round waits for (founder's default 1)", func(s *p2pdiloco.Spec) any { return &s.StartPeers }},
	{"min-peers", "contributors with which a round may close (founder's default 1)", func(s *p2pdiloco.Spec) any { return &s.MinPeers }},
	{"aggregator", "`how` contributions are combined: mean, trimmed_mean or median (founder's default trimmed_mean)", func(s *p2pdiloco.Spec) any { return &s.Aggregator }},
	{"trim-permille", "of the contributors, cut from each end by trimmed_mean (founder's default 200)", func(s *p2pdiloco.Spec) any { return &s.TrimPermille }},
	{"clip", "`on` or off: scale contributions to at most the median norm (founder's default: on unless mean)", func(s *p2pdiloco.Spec) any { return &s.Clip }},
	{"outer", "outer `optimizer`: nesterov or sgd (founder's default nesterov)", func(s *p2pdiloco.Spec) any { return &s.Outer }},
	{"outer-lr", "outer learning rate, a `decimal` (founder's default 0.7)", func(s *p2pdiloco.Spec) any { return &s.OuterLR }},
	{"momentum", "outer momentum, a `decimal` (founder's default 0.9; 0 for sgd)", func(s *p2pdiloco.Spec) any { return &s.Momentum }},
	{"seed", "of the initial model and of the data's division among the peers (founder's default 1)", func(s *p2pdiloco.Spec) any { return &s.Seed }},
}

// specFlags are the run spec as the command line gives it: a TOML file, and flags that win over it.
type specFlags struct {
	file  string
	given p2pdiloco.Spec // by flags
	flags *pflag.FlagSet
}

func (f *specFlags) add(fs *pflag.FlagSet) {
	f.flags = fs
	for _, d := range specFlagList {
		switch p := d.at(&f.given).(type) {
		case *string:
			fs.StringVar(p, d.name, "", d.usage)
		case *uint64:
			fs.Uint64Var(p, d.name, 0, d.usage)
		}
	}
	fs.StringVar(&f.file, "spec", "", "TOML `file` with the run spec; flags given beside it win")
}

// settle returns the spec: the file's fields, then those of the flags given. All faults are reported at once.
func (f *specFlags) settle() (spec p2pdiloco.Spec, err error) {
	if f.file != "" {
		if spec, err = specfile.Read(f.file); err != nil {
			return spec, usageError(err)
		}
	}
	var errs []error
	for _, d := range specFlagList {
		if !f.flags.Changed(d.name) {
			continue
		}
		if isZero(d.at(&f.given)) {
			errs = append(errs, fmt.Errorf("--%s is given, but empty or 0: leave it out to adopt the run's value", d.name))
		}
		assign(d.at(&spec), d.at(&f.given))
	}
	if spec.Name == "" && len(errs) == 0 {
		errs = append(errs, errors.New("which run? Give --run NAME, or name = \"NAME\" in the --spec file"))
	} else if err := spec.Validate(); err != nil {
		errs = append(errs, f.explain(err))
	}
	if len(errs) > 0 {
		return spec, usageError(errors.Join(errs...))
	}
	return spec, nil
}

func isZero(p any) bool {
	switch p := p.(type) {
	case *string:
		return *p == ""
	case *uint64:
		return *p == 0
	}
	return false
}

func assign(dst, src any) {
	switch dst := dst.(type) {
	case *string:
		*dst = *src.(*string)
	case *uint64:
		*dst = *src.(*uint64)
	}
}

// explain says faults of the spec in the words of the command line.
func (f *specFlags) explain(err error) error {
	var faults []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		faults = joined.Unwrap()
	} else {
		faults = []error{err}
	}
	for i, fault := range faults {
		var wrong *p2pdiloco.SpecError
		if errors.As(fault, &wrong) {
			faults[i] = fmt.Errorf("%s %s: %s", f.source(wrong.Field), wrong.Here, wrong.Why)
		}
	}
	return errors.Join(faults...)
}

// source is where a field's value came from.
func (f *specFlags) source(field string) string {
	flag := strings.ReplaceAll(field, "_", "-")
	if field == "name" {
		flag = "run"
	}
	if f.flags.Changed(flag) {
		return "--" + flag
	}
	return fmt.Sprintf("%s: %s =", f.file, field)
}
