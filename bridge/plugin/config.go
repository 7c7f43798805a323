package plugin

import (
	"io"
	"log/slog"
	"os"
	"time"
)

// DefaultTimeout is how long a trainer may show no progress.
const DefaultTimeout = 10 * time.Minute

// maxConfig bounds the text of a configuration, in bytes.
const maxConfig = 16 << 20

// Config says which library to load, and how.
type Config struct {
	// Path of the library.
	Path string
	// Config is the text that is passed to the library's create; "{}" if empty.
	Config string
	// Seed is the run's seed. With Config it determines the initial parameters. It matters on the
	// peer that founds the run.
	Seed uint64
	// DataDir is a folder for the trainer's files, which stays; it is made if missing. If it is
	// empty, Open makes a temporary one and Close removes it.
	DataDir string
	// Timeout is how long a call may take, or inner steps and an export may show no progress, until
	// the trainer counts as hung; default DefaultTimeout.
	Timeout time.Duration
	// Stderr gets what the trainer prints to standard error and standard output; nil means this
	// process's standard error.
	Stderr io.Writer
	// Logger is silent when nil.
	Logger *slog.Logger
	// Wrap is a command line to start the host under, like {"valgrind", "--leak-check=full"}; empty
	// for none.
	Wrap []string
}

func (c Config) withDefaults() Config {
	if c.Config == "" {
		c.Config = "{}"
	}
	if c.Timeout <= 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Stderr == nil {
		c.Stderr = os.Stderr
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
