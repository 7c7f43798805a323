package settings

import (
	"errors"
	"fmt"
	"slices"

	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// settle is the run spec: the fields of the spec file, then those given beside it.
func (s *Settings) settle() (run spec.Spec, errs []error) {
	if s.specFile != "" {
		var err error
		if run, err = readSpec(s.specFile); err != nil {
			return run, []error{err}
		}
	}
	for _, f := range spec.Table() {
		if !s.gives(f.Name) {
			continue
		}
		text := f.Text(s.cfg.Spec)
		if text == "" {
			errs = append(errs, fault(flagOf(f.Name), s.flags.Lookup(flagOf(f.Name)).Value,
				"empty or 0: leave it out to adopt the run's value"))
		}
		_ = f.Set(&run, text) // it is the flag's own
	}
	errs = append(errs, s.checkTicket(&run)...)
	if run.Name == "" && len(errs) == 0 {
		errs = append(errs, s.nameless())
	} else if run.Name != "" {
		errs = append(errs, s.translate(run.Validate())...)
	}
	return run, errs
}

// gives says whether a field of the spec was given by its flag.
func (s *Settings) gives(field string) bool {
	return slices.ContainsFunc(spec.Table(), func(f spec.Field) bool { return f.Name == field && f.Help != "" }) &&
		sources.Rank(s.flags, flagOf(field)) > 0
}

// checkTicket takes the run's name from the ticket, and finds what contradicts it.
func (s *Settings) checkTicket(run *spec.Spec) (errs []error) {
	if s.cfg.Ticket == "" {
		return nil
	}
	t, err := ticket.Parse(s.cfg.Ticket)
	if err != nil {
		return []error{fault("ticket", brief(s.cfg.Ticket), "%v", err)}
	}
	if run.Name == "" {
		run.Name = t.Run
	}
	if run.Name != t.Run {
		errs = append(errs, s.specFault(&spec.Error{
			Field: "name", Here: run.Name,
			Why: fmt.Sprintf("the ticket is for run %s: leave this out", t.Run),
		}))
	}
	if !s.pin.IsZero() && s.pin.Root != t.Pin {
		errs = append(errs, fault("pin", &s.pin, "the ticket pins %s: leave this out", t.Pin))
	}
	if s.cfg.Found {
		errs = append(errs, fault("found", s.cfg.Found, "a ticket is for a run that exists: leave one of them out"))
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

// translate makes faults of settings of faults of the spec.
func (s *Settings) translate(err error) (faults []error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, f := range joined.Unwrap() {
			if wrong := (*spec.Error)(nil); errors.As(f, &wrong) {
				f = s.specFault(wrong)
			}
			faults = append(faults, f)
		}
	}
	return faults
}

func (s *Settings) specFault(wrong *spec.Error) error {
	if s.gives(wrong.Field) {
		return fault(flagOf(wrong.Field), wrong.Here, "%s", wrong.Why)
	}
	return fmt.Errorf("%s: %s = %s: %s", s.specFile, wrong.Field, wrong.Here, wrong.Why)
}
