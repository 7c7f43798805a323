package peer

import (
	"cmp"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/api"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Config is the settings as Join takes them; the caller adds what holds the model, a logger and its
// own hooks. It reads the spec file. It reports all faults at once, each in the words of its
// source, as an ErrInvalid.
func (s *Settings) Config() (p2pdiloco.Config, error) {
	var errs [4][]error
	run, wrong := s.settle()
	cfg := s.cfg
	cfg.Spec, errs[0] = run, wrong
	errs[1], errs[2] = s.check(), s.checkTrainer()
	cfg.Follow, errs[3] = s.readFollowed()
	if err := sources.Explain(s.flags, errors.Join(slices.Concat(errs[:]...)...)); err != nil {
		return p2pdiloco.Config{}, Invalid(err)
	}
	cfg.DataDir = s.DataDir
	if !s.Stays() {
		cfg.Linger = s.linger
	}
	cfg.StateBytesPerSecond = 1_000_000 * s.stateRate
	cfg.MaxUpload, cfg.MaxDownload = int64(s.maxUpload)/8, int64(s.maxDownload)/8
	return cfg, nil
}

// FoundAtOnce has the peer found its run and look for no other first.
func (s *Settings) FoundAtOnce() error {
	s.cfg.AtOnce = true
	return s.flags.Set("found", "true")
}

// Stays says whether the peer serves on after the run's end, until it is stopped.
func (s *Settings) Stays() bool { return s.linger == forever }

const (
	maxStateRate  = 1_000_000 // MB/s: the rate in bytes is within an int64
	maxEventsSize = 1 << 20   // MB
	maxEventsKeep = 1000      // each is renamed when a file is full
)

// check finds what is wrong with settings that concern neither the run nor the trainer.
func (s *Settings) check() (errs sources.Faults) {
	if s.API != "" && s.API != NoAPI {
		_, err := api.ParseAddress(s.API)
		errs.Add(err != nil, "api", s.API, "%v", err)
	}
	if s.Dashboard != "" && s.Dashboard != UsualPage {
		err := api.CheckLoopback(s.Dashboard)
		errs.Add(err != nil, "dashboard", s.Dashboard, "%v", err)
	}
	errs.Add(s.Dashboard != "" && s.API == NoAPI, "dashboard", s.Dashboard,
		"the page asks the peer's API, which is off: leave out --api")
	if s.Metrics != "" {
		_, err := api.ParseMetricsAddress(s.Metrics)
		errs.Add(err != nil, "metrics", s.Metrics, "%v", err)
	}
	unfit := p2pdiloco.CheckPeerName(s.cfg.PeerName)
	errs.Add(unfit != nil, "peer-name", s.cfg.PeerName, "%v", unfit)
	errs.Add(s.cfg.Found && s.cfg.RunID != "", "found", s.cfg.Found,
		"--run NAME@%s is a run that exists: leave one of them out", s.cfg.RunID)
	errs.Add(s.cfg.CheckpointEvery < 1, "checkpoint-every", s.cfg.CheckpointEvery, "at least 1")
	errs.Add(s.cfg.KeepCheckpoints < 1, "keep-checkpoints", s.cfg.KeepCheckpoints, "at least 1")
	errs.Add(s.EventsSize < 0 || s.EventsSize > maxEventsSize, "events-size", s.EventsSize,
		"allowed: 1 to %d, or 0 for no limit", maxEventsSize)
	errs.Add(s.EventsKeep < 0 || s.EventsKeep > maxEventsKeep, "events-keep", s.EventsKeep, "allowed: 0 to %d",
		maxEventsKeep)
	errs.Add(s.stateRate < 0 || s.stateRate > maxStateRate, "state-rate", s.stateRate,
		"allowed: 1 to %d, or 0 for the default", maxStateRate)
	errs.Add(s.maxUpload > 0 && s.maxUpload/8 < p2p.MinUpload, "max-upload", s.maxUpload,
		"at least %s, or the others take this peer for lost", sources.Rate(8*p2p.MinUpload))
	errs.Add(s.maxDownload > 0 && s.maxDownload/8 < p2p.MinDownload, "max-download", s.maxDownload,
		"at least %s, or the others take this peer for lost", sources.Rate(8*p2p.MinDownload))
	return errs
}

// checkTrainer finds settings of another trainer than the one chosen, and what is wrong with those
// of this one.
func (s *Settings) checkTrainer() (errs sources.Faults) {
	for _, d := range s.definitions() {
		// What a weaker source says is for other peers that read it, too.
		given := sources.Rank(s.flags, d.name)
		if d.use != nil && !d.use.fits(s.Trainer) && given > 0 && given >= sources.Rank(s.flags, "trainer") {
			errs.Add(true, d.name, s.flags.Lookup(d.name).Value, "it is for %s, not for --trainer %s", d.use.whose,
				s.Trainer)
		}
	}
	if len(errs) > 0 || s.Trainer == TrainerNone {
		return errs
	}
	if s.Trainer == TrainerAttach {
		errs.Add(s.TrainerReturn < 0, "trainer-return", s.TrainerReturn, "at least 0s")
	}
	if s.Trainer.Library() || s.Trainer == TrainerAttach {
		errs.Add(s.TrainerTimeout < time.Second, "trainer-timeout", s.TrainerTimeout, "at least 1s")
		return errs
	}
	s.Model.Threads = 1
	err := s.Model.Validate()
	errs.Add(err != nil, "model", &s.Model, "%v", err)
	errs.Add(s.Threads < 0, "threads", s.Threads, "at least 1, or 0 for all cores")
	if len(errs) == 0 {
		s.Model.Threads = cmp.Or(s.Threads, runtime.NumCPU())
		err = s.Model.Validate()
		errs.Add(err != nil, "threads", s.Threads, "%v", err)
	}
	return errs
}

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
