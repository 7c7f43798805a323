package peer

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/bridge/builtin"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
)

// LogLevel is the least level that is logged.
type LogLevel string

var logLevels = []string{"debug", "info", "warn", "error"}

// LogLevelUsage is what help says of one.
var LogLevelUsage = "of the log on stderr: " + strings.Join(logLevels, ", ")

// Flag makes the level a flag's value.
func (l *LogLevel) Flag() pflag.Value { return sources.OneOf(l, "level", logLevels) }

// Logger writes to w what the level lets through, no line twice in 10 s.
func (l *LogLevel) Logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(*l)) // Set let only these through
	return slog.New(slog.NewTextHandler(eventlog.Seldom(w), &slog.HandlerOptions{Level: level}))
}

// Trainer is what trains: TrainerGPT, TrainerNone, TrainerAttach, or the path of a shared library.
type Trainer string

// Trainers that are no shared library.
const (
	TrainerGPT  Trainer = "builtin:gpt"
	TrainerNone Trainer = "none"
	// TrainerAttach are processes that attach to the node.
	TrainerAttach Trainer = "attach"
)

// Library says whether the trainer is a shared library.
func (t Trainer) Library() bool {
	s := string(t)
	return strings.Contains(s, "/") || strings.HasSuffix(s, ".so") || strings.HasSuffix(s, ".dylib")
}

// readTrainer reads the name of a trainer, or a path.
func readTrainer(text string) (Trainer, error) {
	t := Trainer(text)
	if t != TrainerGPT && t != TrainerNone && t != TrainerAttach && !t.Library() {
		return "", fmt.Errorf(
			"allowed: %s, %s, %s, or the path of a shared library, like ./mine.so",
			TrainerGPT, TrainerAttach, TrainerNone,
		)
	}
	return t, nil
}

// forever is the linger of a peer that stays after the run's end.
const forever time.Duration = -1

// readLinger reads a duration, or the word forever.
func readLinger(text string) (time.Duration, error) {
	if text == "forever" {
		return forever, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		err = errors.New("allowed: a duration like 90s, 10m or 1h30m, or forever")
	}
	return d, err
}

func showLinger(d time.Duration) string {
	switch {
	case d == forever:
		return "forever"
	case d == 0:
		return ""
	}
	return d.String()
}

// readPin reads the hash of a record.
func readPin(text string) (hash p2pdiloco.Root, err error) {
	if err := hash.UnmarshalText([]byte(text)); err != nil || hash.IsZero() {
		return hash, errors.New("allowed: the 64 hex digits of a record's hash")
	}
	return hash, nil
}

func showPin(hash p2pdiloco.Root) string {
	if hash.IsZero() {
		return ""
	}
	return hash.String()
}

// readTrack reads where slots are tracked.
func readTrack(to string) (string, error) {
	kind, place, _ := strings.Cut(to, ":")
	if place == "" || kind != "tensorboard" && kind != "jsonl" {
		return "", errors.New("allowed: tensorboard:FOLDER, jsonl:FILE")
	}
	return to, nil
}

// Model is the sizes of the built-in model and its inner optimizer, like layers=2,optimizer=muon.
type Model struct{ builtin.Config }

// size is one key of a model.
type size struct {
	key string
	at  *int
}

func (m *Model) sizes() []size {
	return []size{
		{"layers", &m.Layers}, {"width", &m.Width}, {"heads", &m.Heads}, {"context", &m.Context}, {"batch", &m.Batch},
	}
}

// Set reads KEY=N,KEY=N…; keys left out keep their values.
func (m *Model) Set(s string) error {
	sizes := m.sizes()
	for part := range strings.SplitSeq(s, ",") {
		key, value, _ := strings.Cut(part, "=")
		if key == "optimizer" && (value == builtin.AdamW || value == builtin.Muon) {
			m.Optimizer = value
			continue
		}
		i := slices.IndexFunc(sizes, func(f size) bool { return f.key == key })
		n, err := strconv.Atoi(value)
		if i < 0 || err != nil || n < 1 {
			return fmt.Errorf("%q: allowed: %s, with N of 1 or more", part, modelKeys())
		}
		*sizes[i].at = n
	}
	return nil
}

func modelKeys() string {
	var keys []string
	for _, f := range new(Model).sizes() {
		keys = append(keys, f.key+"=N")
	}
	return strings.Join(keys, ", ") + ", optimizer=" + builtin.AdamW + "|" + builtin.Muon
}

// String is what was set.
func (m *Model) String() string {
	var parts []string
	for _, f := range m.sizes() {
		if n := *f.at; n != 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", f.key, n))
		}
	}
	if m.Optimizer != "" {
		parts = append(parts, "optimizer="+m.Optimizer)
	}
	return strings.Join(parts, ",")
}

// Type is what help calls the value.
func (m *Model) Type() string { return "sizes" }
