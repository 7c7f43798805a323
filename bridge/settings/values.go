package settings

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
)

// LogLevel is the least level that is logged.
type LogLevel string

var logLevels = []string{"debug", "info", "warn", "error"}

// LogLevels lists those allowed.
func LogLevels() []string { return slices.Clone(logLevels) }

// Set takes one of LogLevels; String and Type make it a flag.
func (l *LogLevel) Set(s string) error {
	if !slices.Contains(logLevels, s) {
		return errors.New("allowed: " + strings.Join(logLevels, ", "))
	}
	*l = LogLevel(s)
	return nil
}

func (l *LogLevel) String() string { return string(*l) }

// Type is what help calls the value.
func (l *LogLevel) Type() string { return "level" }

// Logger writes to w what the level lets through.
func (l *LogLevel) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(*l)) // Set let only these through
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// Trainer is what trains: TrainerGPT, TrainerNone, or the path of a shared library.
type Trainer string

// Trainers that are no shared library.
const (
	TrainerGPT  Trainer = "builtin:gpt"
	TrainerNone Trainer = "none"
)

// Library says whether the trainer is a shared library.
func (t Trainer) Library() bool {
	s := string(t)
	return strings.ContainsAny(s, `/\`) || strings.HasSuffix(s, ".so") || strings.HasSuffix(s, ".dylib") ||
		strings.HasSuffix(s, ".dll")
}

// Set takes the name of a trainer, or a path; String and Type make it a flag.
func (t *Trainer) Set(s string) error {
	if v := Trainer(s); v != TrainerGPT && v != TrainerNone && !v.Library() {
		return fmt.Errorf("allowed: %s, %s, or the path of a shared library, like ./mine.so", TrainerGPT, TrainerNone)
	}
	*t = Trainer(s)
	return nil
}

func (t *Trainer) String() string { return string(*t) }

// Type is what help calls the value.
func (t *Trainer) Type() string { return "trainer" }

// pin is the hash of a record.
type pin struct{ p2pdiloco.Root }

// Set reads 64 hex digits.
func (p *pin) Set(s string) error {
	if err := p.UnmarshalText([]byte(s)); err != nil || p.IsZero() {
		return errors.New("allowed: the 64 hex digits of a record's hash")
	}
	return nil
}

func (p *pin) String() string {
	if p.IsZero() {
		return ""
	}
	return p.Root.String()
}

// Type is what help calls the value.
func (p *pin) Type() string { return "hash" }

// Model is the sizes of the built-in model, like layers=2,width=128.
type Model struct{ builtin.Config }

// size is one key of a model.
type size struct {
	key string
	at  func(*builtin.Config) *int
}

var sizes = []size{
	{"layers", func(c *builtin.Config) *int { return &c.Layers }},
	{"width", func(c *builtin.Config) *int { return &c.Width }},
	{"heads", func(c *builtin.Config) *int { return &c.Heads }},
	{"context", func(c *builtin.Config) *int { return &c.Context }},
	{"batch", func(c *builtin.Config) *int { return &c.Batch }},
}

// Set reads KEY=N,KEY=N…; keys left out keep their values.
func (m *Model) Set(s string) error {
	for part := range strings.SplitSeq(s, ",") {
		key, value, _ := strings.Cut(part, "=")
		i := slices.IndexFunc(sizes, func(f size) bool { return f.key == key })
		n, err := strconv.Atoi(value)
		if i < 0 || err != nil || n < 1 {
			return fmt.Errorf("%q: allowed: %s", part, modelKeys())
		}
		*sizes[i].at(&m.Config) = n
	}
	return nil
}

func modelKeys() string {
	keys := make([]string, len(sizes))
	for i, f := range sizes {
		keys[i] = f.key + "=N"
	}
	return strings.Join(keys, ", ")
}

// String is the sizes that were set.
func (m *Model) String() string {
	var parts []string
	for _, f := range sizes {
		if n := *f.at(&m.Config); n != 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", f.key, n))
		}
	}
	return strings.Join(parts, ",")
}

// Type is what help calls the value.
func (m *Model) Type() string { return "sizes" }
