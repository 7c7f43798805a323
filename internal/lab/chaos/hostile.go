package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
)

// HostileConfig says what swarms to run with hostile peers among them. Of the Config, Peers are
// honest ones, Slots those of each attack, and Executable is the program of honest peers.
type HostileConfig struct {
	Config
	HostileProgram string // that has hostile.Command
	Attacks        []hostile.Kind
}

// HostileResult is the document that chaos --hostile --json prints.
type HostileResult struct {
	OK       bool      `json:"ok"` // whether every attack was withstood
	Trust    string    `json:"trust"`
	Verdicts []Verdict `json:"verdicts"`
	Wall     float64   `json:"wall_seconds"`
	Dir      string    `json:"dir,omitempty"` // where not all were
}

// Verdict is what came of one attack.
type Verdict struct {
	Attack    string   `json:"attack"`
	Withstood bool     `json:"withstood"` // whether all checks hold
	Checks    []Check  `json:"checks"`
	Deeds     int      `json:"deeds"` // what the hostile peers did, counted
	Said      []string `json:"said"`  // of them, by honest peers
}

// atOnce is how many swarms run beside each other: they wait more than they work.
const atOnce = 3

// RunHostile runs a swarm for each attack. An error means that there is no result. By default there
// is time for attacks of which each stops the run for a while, and some for good.
func RunHostile(ctx context.Context, cfg HostileConfig) (HostileResult, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Duration(len(cfg.Attacks)) * (2*time.Minute + time.Duration(cfg.Slots)*4*time.Second)
	}
	began := time.Now()
	timed, cancel := context.WithTimeoutCause(ctx, cfg.Timeout,
		fmt.Errorf("%w: the runs are not over after %v", errHang, cfg.Timeout))
	defer cancel()
	verdicts, errs := make([]Verdict, len(cfg.Attacks)), make([]error, len(cfg.Attacks))
	places := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i, k := range cfg.Attacks {
		running.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			verdicts[i], errs[i] = cfg.attack(timed, k)
		})
	}
	running.Wait()
	res := HostileResult{
		Trust: cfg.Trust, Verdicts: verdicts, Wall: time.Since(began).Seconds(),
	}
	err := errors.Join(append(errs, ctx.Err())...)
	if err == nil {
		res.finish(cfg.Out, cfg.Dir)
	}
	return res, err
}

// attempts is how often an attack is tried that had no occasion: chance decides who leads.
const attempts = 3

// attack runs a swarm with an attack, until this had an occasion.
func (c HostileConfig) attack(ctx context.Context, k hostile.Kind) (v Verdict, err error) {
	screen := lab.NewNotes(c.Out)
	for n := range attempts {
		dir := filepath.Join(c.Dir, k.Name)
		if n > 0 {
			screen.Note(k.Name + " had no occasion")
			dir = fmt.Sprintf("%s-%d", dir, n+1)
		}
		v, err = assail(ctx, c, k, dir, screen)
		if err != nil || ctx.Err() != nil {
			return v, err
		}
		failed := slices.IndexFunc(v.Checks, func(c Check) bool { return !c.OK })
		if v.Deeds > 0 || v.Checks[failed].Name != hostile.CheckCame {
			break
		}
	}
	v.print(c.Out)
	return v, nil
}

// print writes an attack's verdict for people.
func (v Verdict) print(out io.Writer) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %swithstood\n", v.Attack, map[bool]string{false: "NOT "}[v.Withstood])
	for _, c := range v.Checks {
		switch {
		case !c.OK:
			fmt.Fprintf(&b, "  FAIL  %s: %s\n", c.Name, c.Detail)
		case c.Name == hostile.CheckCost || strings.HasPrefix(c.Detail, hostile.NotChecked):
			fmt.Fprintf(&b, "  %s: %s\n", c.Name, c.Detail)
		}
	}
	fmt.Fprintf(&b, "  it did it %d times; said of it: %s\n", v.Deeds, strings.Join(v.Said, "; "))
	_, _ = io.WriteString(out, b.String())
}

// finish sums up and prints.
func (r *HostileResult) finish(out io.Writer, dir string) {
	var not []string
	for _, v := range r.Verdicts {
		if !v.Withstood {
			not = append(not, v.Attack)
		}
	}
	r.OK = not == nil
	fmt.Fprintf(out, "%d of %d attacks withstood with trust %s, %.0f s\n", len(r.Verdicts)-len(not), len(r.Verdicts),
		r.Trust, r.Wall)
	if !r.OK {
		r.Dir = dir
		fmt.Fprintf(out, "NOT withstood: %s\nLogs, events and data:  %s\n", strings.Join(not, ", "), r.Dir)
	}
}
