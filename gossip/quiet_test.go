package gossip

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestQuietPassesErrorsOnly(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(quiet{slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelInfo})}).With("a",
		1).WithGroup("g")
	log.Warn("ordinary")
	log.Error("serious")
	if got := b.String(); strings.Contains(got, "ordinary") || !strings.Contains(got, "serious") {
		t.Fatalf("logged %q", got)
	}
}
