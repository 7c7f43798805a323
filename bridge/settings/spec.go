package settings

import (
	"errors"
	"fmt"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/specfile"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
)

// settle is the run spec: the fields of the spec file, then those given beside it.
func (s *Settings) settle() (spec p2pdiloco.Spec, errs []error) {
	if s.specFile != "" {
		var err error
		if spec, err = specfile.Read(s.specFile); err != nil {
			return spec, []error{err}
		}
	}
	merged := &Settings{spec: spec}
	for _, d := range definitions {
		if d.use != ofRun || sources.Rank(s.flags, d.name) == 0 {
			continue
		}
		value := d.at(s)
		if isZero(value) {
			errs = append(errs, fault(d.name, s.flags.Lookup(d.name).Value, "empty or 0: leave it out to adopt the run's value"))
		}
		assign(d.at(merged), value)
	}
	spec = merged.spec
	errs = append(errs, s.checkTicket(&spec)...)
	if spec.Name == "" && len(errs) == 0 {
		errs = append(errs, s.nameless())
	} else if spec.Name != "" {
		errs = append(errs, s.translate(spec.Validate())...)
	}
	return spec, errs
}

// checkTicket takes the run's name from the ticket, and finds what contradicts it.
func (s *Settings) checkTicket(spec *p2pdiloco.Spec) (errs []error) {
	if s.ticket == "" {
		return nil
	}
	t, err := ticket.Parse(s.ticket)
	if err != nil {
		return []error{fault("ticket", brief(s.ticket), "%v", err)}
	}
	if spec.Name == "" {
		spec.Name = t.Run
	}
	if spec.Name != t.Run {
		errs = append(errs, s.specFault(&p2pdiloco.SpecError{Field: "name", Here: spec.Name, Why: fmt.Sprintf("the ticket is for run %s: leave this out", t.Run)}))
	}
	if !s.pin.IsZero() && s.pin.Root != t.Pin {
		errs = append(errs, fault("pin", &s.pin, "the ticket pins %s: leave this out", t.Pin))
	}
	if s.found {
		errs = append(errs, fault("found", s.found, "a ticket is for a run that exists: leave one of them out"))
	}
	return errs
}

// brief is the beginning of a text that is long, and perhaps secret.
func brief(text string) string {
	if len(text) > 20 {
		return text[:20] + "…"
	}
	return text
}

func (s *Settings) nameless() error {
	if s.embedded {
		return errors.New(`which run? Give "run": "NAME", or P2PDILOCO_RUN in the environment, or a ticket`)
	}
	return errors.New(`which run? Give --run NAME, or name = "NAME" in the --spec file, or a ticket`)
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

// translate makes faults of settings of faults of the spec.
func (s *Settings) translate(err error) []error {
	var faults []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		faults = joined.Unwrap()
	}
	for i, f := range faults {
		var wrong *p2pdiloco.SpecError
		if errors.As(f, &wrong) {
			faults[i] = s.specFault(wrong)
		}
	}
	return faults
}

func (s *Settings) specFault(wrong *p2pdiloco.SpecError) error {
	flag := flagOf(wrong.Field)
	if sources.Rank(s.flags, flag) > 0 {
		return fault(flag, wrong.Here, "%s", wrong.Why)
	}
	return fmt.Errorf("%s: %s = %s: %s", s.specFile, wrong.Field, wrong.Here, wrong.Why)
}
