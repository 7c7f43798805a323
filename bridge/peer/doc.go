// Package peer is what `p2pdiloco join` puts around a node: a data directory of its own, the events
// file, the status API, and an orderly end. It prints nothing and handles no signals.
//
//	p, err := peer.Open(ctx, s, peer.Options{…}) // claims the data directory, looks for the run
//	node, err := p.Node(ctx)                     // waits until it is found or founded
//	err = node.Run(ctx)
//	err = p.Leave(ctx)                           // or p.Close()
//
// Every peer that Open returned must be ended with Leave or Close.
//
// # Data directories
//
// A peer for which the user named no directory gets one under the user's state directory
// (statedir.go): one for each run and peer, kept over restarts. Peers that run side by side on one
// machine get one each: a lock file beside a directory says whether it is taken. A process that was
// given such a directory by name holds the lock in it alone, which counts as well. Dirs lists the
// directories of this host's peers, however they were made.
//
// # Settings
//
// Settings is every setting of a peer, defined once (table.go): for the flags of `p2pdiloco join`,
// and for the environment and the config file that it reads. What is given in more than one place
// is taken from the first of
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
//	s := peer.NewSettings()
//	s.Register(flags)
//	err := sources.Fill(flags, known, sources.Environment(os.Environ()))
//	cfg, err := s.Config()
//
// Config says all faults at once, each in the words of its source. What is no part of
// p2pdiloco.Config (events, API, trainer, log level) are fields of Settings.
package peer
