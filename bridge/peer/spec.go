package peer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/node/datadir"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/ticket"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// settle is the run spec: the fields of the spec file, then those given beside it.
func (s *Settings) settle() (run spec.Spec, errs sources.Faults) {
	if s.specFile != "" {
		var err error
		if run, err = readSpec(s.specFile); err != nil {
			return run, sources.Faults{err}
		}
	}
	errs = append(errs, s.readFounders()...)
	for _, f := range spec.Table() {
		if !s.gives(f.Name) {
			continue
		}
		flag, text := flagOf(f.Name), f.Text(s.cfg.Spec)
		refused := f.Name == founders && len(s.founders) > 0 // readFounders has said why
		errs.Add(text == "" && !refused, flag, s.flags.Lookup(flag).Value,
			"empty or 0: leave it out to adopt the run's value")
		_ = f.Set(&run, text) // it is the flag's own
	}
	s.takeRunID(&run)
	s.checkTicket(&run, &errs)
	if run.Name == "" && len(errs) == 0 {
		if err := s.resume(&run); err != nil {
			return run, sources.Faults{err}
		}
	}
	if joined, ok := run.Validate().(interface{ Unwrap() []error }); ok && run.Name != "" {
		for _, f := range joined.Unwrap() {
			errs = append(errs, s.specFault(f))
		}
	}
	return run, errs
}

// takeRunID takes the beginning of the run's ID off its name: NAME@ID.
func (s *Settings) takeRunID(run *spec.Spec) {
	if at := strings.LastIndex(run.Name, "@"); at > 0 && isRunID(run.Name[at+1:]) {
		run.Name, s.cfg.RunID = run.Name[:at], run.Name[at+1:]
	}
}

// minRunID is how many hex digits of a run's ID tell it from a part of the name.
const minRunID = 8

func isRunID(text string) bool {
	return len(text) >= minRunID && strings.Trim(text, "0123456789abcdef") == ""
}

// errWhich is what is said where nothing names the run.
var errWhich = errors.New(`which run? Give --run NAME, or name = "NAME" in the --spec file, or a ticket`)

// resume takes the run's name from the data directory: a peer that was in a run is started again
// with its directory alone.
func (s *Settings) resume(run *spec.Spec) error {
	if s.DataDir == "" {
		return errWhich
	}
	known, err := datadir.At(disk.OS, s.DataDir).LoadSpec(spec.Spec{})
	switch {
	case err != nil:
		return err
	case known == nil:
		return fmt.Errorf("%w (data directory %s has been in no run)", errWhich, s.DataDir)
	}
	run.Name = known.Name
	return nil
}

// founders is the field of the run spec that is a list of peers.
const founders = "founders"

// readFounders reads the peers that are to found the run.
func (s *Settings) readFounders() (errs sources.Faults) {
	s.cfg.Spec.Founders = nil
	for _, text := range s.founders {
		p, ok := peerID(text)
		if !ok {
			errs.Add(true, founders, text, "no peer ID, like 12D3Koo…, as p2pdiloco id shows it")
			continue
		}
		s.cfg.Spec.Founders = append(s.cfg.Spec.Founders, p)
	}
	return errs
}

// gives says whether a field of the spec was given by its flag.
func (s *Settings) gives(field string) bool {
	return slices.ContainsFunc(spec.Table(), func(f spec.Field) bool { return f.Name == field && f.Help != "" }) &&
		sources.Rank(s.flags, flagOf(field)) > 0
}

// specFault puts a fault of the spec in the words of the place that the field was given in.
func (s *Settings) specFault(err error) error {
	wrong, ok := errors.AsType[*spec.Error](err)
	switch {
	case !ok:
		return err
	case s.gives(wrong.Field):
		return sources.Faultf(flagOf(wrong.Field), wrong.Here, "%s", wrong.Why)
	}
	return fmt.Errorf("%s: %s = %s: %s", s.specFile, wrong.Field, wrong.Here, wrong.Why)
}

// FounderFaults says what is wrong with the settings of a run if this peer founds it, with the
// defaults for what was not given. A peer that joins adopts the run's settings instead, so these
// are no faults of Config. run is its Spec. There are none with a ticket, whose run exists.
func (s *Settings) FounderFaults(run spec.Spec) error {
	joined, ok := run.Settled().Validate().(interface{ Unwrap() []error })
	if !ok || s.cfg.Ticket != "" {
		return nil
	}
	given := run.Fields()
	var errs []error
	for _, err := range joined.Unwrap() {
		wrong, ok := errors.AsType[*spec.Error](err)
		if ok && given[wrong.Field] != "" { // one of a default comes with one of what was given
			errs = append(errs, s.specFault(wrong))
		}
	}
	return sources.Explain(s.flags, errors.Join(errs...))
}

// checkTicket takes the run's name from the ticket, and finds what contradicts it.
func (s *Settings) checkTicket(run *spec.Spec, errs *sources.Faults) {
	if s.cfg.Ticket == "" {
		return
	}
	t, err := ticket.Parse(s.cfg.Ticket)
	if err != nil {
		errs.Add(true, "ticket", brief(s.cfg.Ticket), "%v", err)
		return
	}
	if run.Name = cmp.Or(run.Name, t.Run); run.Name != t.Run {
		*errs = append(*errs, s.specFault(&spec.Error{
			Field: "name", Here: run.Name, Why: fmt.Sprintf("the ticket is for run %s: leave this out", t.Run),
		}))
	}
	errs.Add(!s.cfg.Pin.IsZero() && s.cfg.Pin != t.Pin, "pin", s.cfg.Pin, "the ticket pins %s: leave this out", t.Pin)
	errs.Add(s.cfg.Found, "found", s.cfg.Found, "a ticket is for a run that exists: leave one of them out")
	errs.Add(!strings.HasPrefix(t.RunID.String(), s.cfg.RunID), "run", run.Name+"@"+s.cfg.RunID,
		"the ticket is for the run with the ID %.16s: leave this out", t.RunID)
}

// brief is the beginning of a text that is long, and perhaps secret.
func brief(text string) string {
	if len(text) > 20 {
		return text[:20] + "…"
	}
	return text
}
