package main

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

// logLevel is the value of --log-level.
type logLevel string

var logLevels = []string{"debug", "info", "warn", "error"}

// Set, String and Type make it a flag.
func (l *logLevel) Set(s string) error {
	if !slices.Contains(logLevels, s) {
		return errors.New("allowed: " + strings.Join(logLevels, ", "))
	}
	*l = logLevel(s)
	return nil
}

func (l *logLevel) String() string { return string(*l) }

// Type is what help calls the value.
func (l *logLevel) Type() string { return "level" }

func (l *logLevel) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(*l)) // Set let only these through
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// oneOf is a flag with few allowed values.
type oneOf struct {
	value   string
	allowed []string
	kind    string
}

// Set, String and Type make it a flag.
func (o *oneOf) Set(s string) error {
	if !slices.Contains(o.allowed, s) {
		return errors.New("allowed: " + strings.Join(o.allowed, ", "))
	}
	o.value = s
	return nil
}

func (o *oneOf) String() string { return o.value }

// Type is what help calls the value.
func (o *oneOf) Type() string { return o.kind }

// pin is the value of --pin: the hash of a record.
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

// model is the value of --model: the sizes of the built-in model, like layers=2,width=128.
type model struct{ builtin.Config }

// size is one key of --model.
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
func (m *model) Set(s string) error {
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
func (m *model) String() string {
	var parts []string
	for _, f := range sizes {
		if n := *f.at(&m.Config); n != 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", f.key, n))
		}
	}
	return strings.Join(parts, ",")
}

// Type is what help calls the value.
func (m *model) Type() string { return "sizes" }
