// Package cli is the frame of this project's programs: it runs one command line, fills flags from
// the environment and a config file, prints errors, and chooses the exit status.
//
// A program makes its root command with NewRoot, adds its commands and calls Execute. A command
// returns UsageError for a command line that cannot be obeyed, ErrFailed where it has already said
// what failed, ErrInterrupted after a signal, and any other error for the rest.
//
// NewJoin and NewBootstrap are commands of both programs, which run a node of the network: a peer
// that trains in a run, and a node that newcomers start from. cmd/p2pdiloco offers them to users;
// cmd/p2plab starts them as the peers of its swarms. join makes a participant (participant.go): it
// opens the peer with bridge/peer, makes the trainer (trainer.go), prints the events that people
// want to know of (narrator.go), and sums up at the end.
package cli
