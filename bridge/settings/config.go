package settings

import (
	"errors"
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// ErrInvalid is what errors about settings are, for errors.Is: nothing was started.
var ErrInvalid = errors.New("the settings cannot be obeyed")

// invalid is an error that is ErrInvalid without saying so.
type invalid struct{ error }

func (e invalid) Is(target error) bool { return target == ErrInvalid }
func (e invalid) Unwrap() error        { return e.error }

// Invalid makes an ErrInvalid of an error, nil of nil.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return invalid{err}
}

// Config is the settings as Join takes them; the caller adds what holds the model, a logger and its own hooks. It reads the spec file.
// It reports all faults at once, each in the words of its source, as an ErrInvalid.
func (s *Settings) Config() (p2pdiloco.Config, error) {
	spec, errs := s.settle()
	errs = append(errs, s.check()...)
	errs = append(errs, s.checkTrainer()...)
	if err := sources.Explain(s.flags, errors.Join(errs...)); err != nil {
		return p2pdiloco.Config{}, Invalid(err)
	}
	allowed, err := s.readAllow()
	followed, err2 := s.readFollow()
	if err := errors.Join(err, err2); err != nil {
		return p2pdiloco.Config{}, Invalid(sources.Explain(s.flags, err))
	}
	spec.Layout = s.Layout
	return p2pdiloco.Config{
		Spec: spec, Ticket: s.ticket, AdmissionSecret: s.secret, Allow: allowed, Follow: followed, DataDir: s.DataDir, Listen: s.listen, Announce: s.announce, Bootstrap: s.bootstrap, Found: s.found, Preset: s.preset.Value,
		OnQuorumLoss: s.onLoss.Value, Pin: s.pin.Root, InitFile: s.init,
		CheckpointEvery: s.every, KeepCheckpoints: s.keep, StateBytesPerSecond: 1_000_000 * s.stateRate, MaxUpload: int64(s.maxUpload) / 8, MaxDownload: int64(s.maxDownload) / 8,
		NoPortMap: s.noPortMap, NoRelaying: s.noRelaying, NewcomerStates: s.newcomers.states, SiteNewcomers: s.newcomers.perSite,
	}, nil
}

func fault(flag string, value any, format string, args ...any) error {
	return &sources.Fault{Flag: flag, Value: fmt.Sprint(value), Why: fmt.Sprintf(format, args...)}
}

// maxStateRate keeps the rate in bytes within an int64.
const maxStateRate = 1_000_000 // MB/s

// check finds what is wrong with settings that concern neither the run nor the trainer.
func (s *Settings) check() (errs []error) {
	if s.API != NoAPI {
		if _, err := api.ParseAddress(s.API); err != nil {
			errs = append(errs, fault("api", s.API, "%v", err))
		}
	}
	if s.Metrics != "" {
		if _, err := api.ParseMetricsAddress(s.Metrics); err != nil {
			errs = append(errs, fault("metrics", s.Metrics, "%v", err))
		}
	}
	if s.every < 1 {
		errs = append(errs, fault("checkpoint-every", s.every, "at least 1"))
	}
	if s.keep < 1 {
		errs = append(errs, fault("keep-checkpoints", s.keep, "at least 1"))
	}
	if s.stateRate < 0 || s.stateRate > maxStateRate {
		errs = append(errs, fault("state-rate", s.stateRate, "allowed: 1 to %d, or 0 for the default", maxStateRate))
	}
	if s.maxUpload > 0 && s.maxUpload/8 < p2p.MinUpload {
		errs = append(errs, fault("max-upload", s.maxUpload, "at least %s, or the others take this peer for lost", sources.Rate(8*p2p.MinUpload)))
	}
	if s.maxDownload > 0 && s.maxDownload/8 < p2p.MinDownload {
		errs = append(errs, fault("max-download", s.maxDownload, "at least %s, or the others take this peer for lost", sources.Rate(8*p2p.MinDownload)))
	}
	return errs
}

// checkTrainer finds settings of another trainer than the one chosen, and what is wrong with those of this one.
func (s *Settings) checkTrainer() (errs []error) {
	if s.embedded {
		return nil
	}
	for _, d := range definitions {
		// What a weaker source says is for other peers that read it, too.
		given := sources.Rank(s.flags, d.name)
		if whose := s.notFor(d.use); whose != "" && given > 0 && given >= sources.Rank(s.flags, "trainer") {
			errs = append(errs, fault(d.name, s.flags.Lookup(d.name).Value, "it is for %s, not for --trainer %s", whose, s.Trainer))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	switch {
	case s.Trainer.Library():
		if s.TrainerTimeout < time.Second {
			errs = append(errs, fault("trainer-timeout", s.TrainerTimeout, "at least 1s"))
		}
	case s.Trainer == TrainerGPT:
		errs = s.checkModel()
	}
	return errs
}

// notFor says whose settings of this use are, if they are not for the trainer chosen.
func (s *Settings) notFor(u use) string {
	switch {
	case u == initial && s.Trainer == TrainerNone:
		return "a peer that trains"
	case (u == ofGPT || u == ofTests) && s.Trainer != TrainerGPT:
		return "a peer that trains with " + string(TrainerGPT)
	case u == ofPlugin && !s.Trainer.Library():
		return "a trainer that is a shared library"
	}
	return ""
}

func (s *Settings) checkModel() []error {
	model := s.Model
	model.Threads = 1
	if err := model.Validate(); err != nil {
		return []error{fault("model", &s.Model, "%v", err)}
	}
	if model.Threads = s.Threads; s.Threads < 1 {
		return []error{fault("threads", s.Threads, "at least 1")}
	}
	if err := model.Validate(); err != nil {
		return []error{fault("threads", s.Threads, "%v", err)}
	}
	s.Model = model
	return nil
}
