package embed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/p2pdiloco/p2pdiloco"
)

// given is the JSON object of join.
type given struct {
	Run          string          `json:"run"`
	Layout       []tensor        `json:"layout"`
	Bootstrap    []string        `json:"bootstrap"`
	Listen       []string        `json:"listen"`
	Found        bool            `json:"found"`
	Preset       string          `json:"preset"`
	DataDir      string          `json:"data_dir"`
	Rounds       uint64          `json:"rounds"`
	InnerSteps   uint64          `json:"inner_steps"`
	Outer        string          `json:"outer"`
	OuterLR      json.RawMessage `json:"outer_lr"`
	Momentum     json.RawMessage `json:"momentum"`
	Aggregator   string          `json:"aggregator"`
	TrimPermille uint64          `json:"trim_permille"`
	Clip         string          `json:"clip"`
	Seed         uint64          `json:"seed"`
	StartPeers   uint64          `json:"start_peers"`
	MinPeers     uint64          `json:"min_peers"`
	OnQuorumLoss string          `json:"on_quorum_loss"`
	LogLevel     string          `json:"log_level"`
}

type tensor struct {
	Name  string   `json:"name"`
	Shape []uint64 `json:"shape"`
}

// parse makes a node's configuration of the JSON object of join.
func parse(config string, stderr io.Writer) (cfg p2pdiloco.Config, err error) {
	var g given
	d := json.NewDecoder(bytes.NewReader([]byte(config)))
	d.DisallowUnknownFields()
	if err := d.Decode(&g); err != nil {
		return cfg, fmt.Errorf("config: %w: give a JSON object like {\"run\": \"my-run\"}", err)
	}
	if d.More() {
		return cfg, errors.New("config: more than one JSON value")
	}
	spec := p2pdiloco.Spec{
		Name: g.Run, Rounds: g.Rounds, InnerSteps: g.InnerSteps, Outer: g.Outer, OuterLR: decimal(g.OuterLR), Momentum: decimal(g.Momentum),
		Aggregator: g.Aggregator, TrimPermille: g.TrimPermille, Clip: g.Clip, Seed: g.Seed, StartPeers: g.StartPeers, MinPeers: g.MinPeers,
	}
	for _, t := range g.Layout {
		spec.Layout = append(spec.Layout, p2pdiloco.Tensor{Name: t.Name, Shape: t.Shape})
	}
	cfg = p2pdiloco.Config{
		Spec: spec, DataDir: g.DataDir, Listen: g.Listen, Bootstrap: g.Bootstrap, Found: g.Found, Preset: g.Preset, OnQuorumLoss: g.OnQuorumLoss,
	}
	if g.LogLevel != "" {
		var level slog.Level
		if err := level.UnmarshalText([]byte(g.LogLevel)); err != nil {
			return cfg, fmt.Errorf("config: log_level %q: allowed: debug, info, warn, error", g.LogLevel)
		}
		cfg.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	}
	return cfg, nil
}

// decimal is the digits of a JSON number, or of a string that holds one.
func decimal(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
