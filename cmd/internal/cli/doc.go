// Package cli is the frame of this project's programs: it runs one command line, fills flags from
// the environment and a config file, prints errors, and chooses the exit status.
//
// A program makes its root command with NewRoot, adds its commands and calls Execute. A command
// returns UsageError for a command line that cannot be obeyed, ErrFailed where it has already said
// what failed, ErrInterrupted after a signal, and any other error for the rest.
package cli
