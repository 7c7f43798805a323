package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/lab"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/hostile"
	"github.com/p2pdiloco/p2pdiloco/internal/sources"
	"github.com/p2pdiloco/p2pdiloco/internal/swarm"
)

// HostileCommand is the command of a hostile peer: it has the name of an attack and a folder, and
// the flags of join.
const HostileCommand = "hostile-join"

// HostileConfig says what swarms to run with hostile peers among them.
type HostileConfig struct {
	swarm.Setting
	Peers          int               // honest ones
	Slots          uint64            // of each attack
	Trust          string            // of the runs; empty: TrustByzantine
	HostileProgram string            // that has HostileCommand
	Attacks        lab.Names[string] // kinds of package hostile
	Timeout        time.Duration     // for everything; 0: by the number of attacks
	LogLevel       string            // of the peers' logs
	Width          int               // of the terminal, in columns
}

// minHonest is how many honest peers there are at least: with a hostile one they are four, the
// fewest that withstand a liar.
const minHonest = 3

// Validate returns all faults of c in one error.
func (c HostileConfig) Validate() error {
	var f sources.Faults
	f.Add(c.Peers < minHonest || c.Peers > maxPeers, "peers", c.Peers, "allowed: %d to %d", minHonest, maxPeers)
	f.Add(c.Slots < minSlots || c.Slots > maxSlots, "slots", c.Slots, "allowed: %d to %d", minSlots, maxSlots)
	f.Add(c.Timeout < 0, "timeout", c.Timeout, "allowed: 0 (chosen by --slots) and above")
	if fault := (*p2pdiloco.SpecError)(nil); errors.As(c.swarm().Settings().Validate(), &fault) {
		f.Add(true, strings.ReplaceAll(fault.Field, "_", "-"), fault.Here, "%s", fault.Why)
	}
	return errors.Join(f...)
}

// DefaultTimeout is enough where every attack stops the run for a while, and some for good.
func (c HostileConfig) DefaultTimeout() time.Duration {
	return time.Duration(len(c.Attacks)) * (2*time.Minute + time.Duration(c.Slots)*4*time.Second)
}

// swarm is the configuration of one run's honest peers.
func (c HostileConfig) swarm() Config {
	return Config{
		Setting: c.Setting, Peers: c.Peers, Slots: calmSlots + c.Slots, Seed: 1, Mode: p2pdiloco.ModeSync,
		Trust:    cmp.Or(c.Trust, p2pdiloco.TrustByzantine),
		LogLevel: c.LogLevel,
	}
}

// HostileResult is the document that chaos --hostile --json prints.
type HostileResult struct {
	OK       bool      `json:"ok"` // whether every attack was withstood
	Trust    string    `json:"trust"`
	Peers    int       `json:"peers"` // honest ones
	Slots    uint64    `json:"slots"` // of each attack
	Verdicts []Verdict `json:"verdicts"`
	Wall     float64   `json:"wall_seconds"`
	Dir      string    `json:"dir,omitempty"`
}

// Verdict is what came of one attack.
type Verdict struct {
	Attack    string   `json:"attack"`
	Withstood bool     `json:"withstood"` // whether all checks hold
	Checks    []Check  `json:"checks"`
	Deeds     int      `json:"deeds"`           // what the hostile peers did, counted
	Said      []string `json:"said"`            // of them, by honest peers
	Slots     uint64   `json:"slots"`           // committed during the attack
	Seconds   float64  `json:"seconds"`         // that they took
	SlotTime  float64  `json:"slot_seconds"`    // that one took before
	SlotsLost float64  `json:"slots_lost"`      // as many more could have been done in that time
	Wall      float64  `json:"attempt_seconds"` // the whole run
}

// pace counts the slots that the attack cost: those that the run would have done undisturbed.
func (v *Verdict) pace(g ledger, from uint64, began time.Time) {
	first, begun := g.commits[1]
	last, ok := g.commits[from]
	if !begun || !ok || from < 2 {
		return
	}
	v.SlotTime = last.Sub(first).Seconds() / float64(from-1)
	if end, ok := g.commits[g.slot]; ok && g.slot > from {
		v.Seconds = end.Sub(began).Seconds()
	}
	v.SlotsLost = max(0, v.Seconds/v.SlotTime-float64(v.Slots))
}

// atOnce is how many swarms run beside each other: they wait more than they work.
const atOnce = 3

// RunHostile runs a swarm for each attack. An error means that there is no result.
func RunHostile(ctx context.Context, cfg HostileConfig) (HostileResult, error) {
	if cfg.Timeout == 0 {
		cfg.Timeout = cfg.DefaultTimeout()
	}
	began := time.Now()
	timed, cancel := context.WithTimeoutCause(ctx, cfg.Timeout,
		fmt.Errorf("%w: the runs are not over after %v", errHang, cfg.Timeout))
	defer cancel()
	res := HostileResult{OK: true, Trust: cfg.swarm().Trust, Peers: cfg.Peers, Slots: cfg.Slots, Dir: cfg.Dir}
	cfg.Out = &wholeWrites{out: cfg.Out}
	verdicts, errs := make([]Verdict, len(cfg.Attacks)), make([]error, len(cfg.Attacks))
	places := make(chan struct{}, atOnce)
	var running sync.WaitGroup
	for i, name := range cfg.Attacks {
		running.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			verdicts[i], errs[i] = tryAssault(timed, cfg, name)
		})
	}
	running.Wait()
	if err := errors.Join(errs...); err != nil || ctx.Err() != nil {
		return res, errors.Join(err, ctx.Err())
	}
	for _, v := range verdicts {
		res.OK = res.OK && v.Withstood
	}
	res.Verdicts = verdicts
	res.Wall = time.Since(began).Seconds()
	res.print(cfg.Out)
	return res, nil
}

// attempts is how often an attack is tried that had no occasion: chance decides who leads.
const attempts = 3

func tryAssault(ctx context.Context, cfg HostileConfig, name string) (v Verdict, err error) {
	began, screen := time.Now(), swarm.NewScreen(cfg.Out, cfg.Width)
	for n := range attempts {
		dir := filepath.Join(cfg.Dir, name)
		if n > 0 {
			dir = fmt.Sprintf("%s-%d", dir, n+1)
		}
		v, err = assail(ctx, cfg, name, dir, screen)
		if err != nil || ctx.Err() != nil {
			return v, err
		}
		if v.Deeds > 0 || v.failure() != hostile.CheckCame {
			break
		}
		screen.Note(fmt.Sprintf("%s had no occasion", name))
	}
	v.Wall = time.Since(began).Seconds()
	v.print(cfg.Out)
	return v, nil
}

// wholeWrites takes what several runs print, a write at a time.
type wholeWrites struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *wholeWrites) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(b)
}

// failure is the first check that fails; empty: none.
func (v Verdict) failure() string {
	for _, c := range v.Checks {
		if !c.OK {
			return c.Name
		}
	}
	return ""
}

// print writes an attack's verdict for people.
func (v Verdict) print(out io.Writer) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %swithstood\n", v.Attack, map[bool]string{false: "NOT "}[v.Withstood])
	for _, c := range v.Checks {
		switch {
		case !c.OK:
			fmt.Fprintf(&b, "  FAIL  %s: %s\n", c.Name, c.Detail)
		case strings.HasPrefix(c.Detail, hostile.NotChecked):
			fmt.Fprintf(&b, "  %s: %s\n", c.Name, c.Detail)
		}
	}
	if len(v.Said) > 0 {
		fmt.Fprintf(&b, "  said of it: %s\n", strings.Join(v.Said, "; "))
	}
	fmt.Fprintf(&b, "  %d slots in %.1f s under attack, %.2f s a slot before: %.0f slots lost; it did it %d times\n",
		v.Slots, v.Seconds, v.SlotTime, v.SlotsLost, v.Deeds)
	_, _ = io.WriteString(out, b.String())
}

func (r HostileResult) print(out io.Writer) {
	var not []string
	for _, v := range r.Verdicts {
		if !v.Withstood {
			not = append(not, v.Attack)
		}
	}
	fmt.Fprintf(out, "%d of %d attacks withstood with trust %s, %.0f s", len(r.Verdicts)-len(not), len(r.Verdicts),
		r.Trust, r.Wall)
	if len(not) > 0 {
		fmt.Fprintf(out, "; NOT withstood: %s", strings.Join(not, ", "))
	}
	fmt.Fprintln(out)
	if !r.OK {
		fmt.Fprintf(out, "Logs, events and data:  %s\n", r.Dir)
	}
}
