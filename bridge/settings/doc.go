// Package settings is every setting of a peer, defined once: for the flags of `p2pdiloco join`, and
// for the environment and the config file that it reads. What is given in more than one place is
// taken from the first of
//
//	the command line
//	the environment: P2PDILOCO_INNER_STEPS=100
//	the config file: inner_steps = 100
//	the run spec file: inner_steps = 100
//	the default, for settings of the run its founder's
//
// A program with a command line registers the flags, parses it, and has the flags that were not
// given filled:
//
//	s := settings.New()
//	s.Register(flags)
//	err := sources.Fill(flags, known, sources.Environment(os.Environ()))
//	cfg, err := s.Config()
//
// Config says all faults at once, each in the words of its source. What is no part of
// p2pdiloco.Config (events, API, trainer, log level) are fields of Settings; package peer makes use
// of them.
package settings
