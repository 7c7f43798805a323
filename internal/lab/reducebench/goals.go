package reducebench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/p2pdiloco/p2pdiloco/allreduce"
	"github.com/p2pdiloco/p2pdiloco/allreduce/codec"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
)

// Goal is one figure that the all-reduce should reach, beside the one measured.
type Goal struct {
	What     string  `json:"what"`
	Limit    float64 `json:"limit"`
	AtLeast  bool    `json:"at_least"` // whether the limit is from below
	Measured float64 `json:"measured"`
	Met      bool    `json:"met"`
	Missing  string  `json:"missing,omitempty"` // why nothing was measured
	Note     string  `json:"note,omitempty"`
}

// Goals is what RunGoals ends with.
type Goals struct {
	Goals   []Goal   `json:"goals"`
	Results []Result `json:"results"` // all measurements for them
}

// goalRun measures for one or more goals.
type goalRun struct {
	cfg Config
	Goals
}

// RunGoals measures each case that has a goal. The contenders of a goal take turns in one run. From
// cfg it takes the number of rounds, the program and the folder. With an error it also returns the
// figures of the cases that did not fail.
func RunGoals(ctx context.Context, cfg Config) (Goals, error) {
	cfg.Case, cfg.Against, cfg.Namespaces, cfg.Rate, cfg.Delay = Default(), "", false, 0, 0
	g := &goalRun{cfg: cfg}
	var errs []error
	for _, part := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"64 MiB beside OpenMPI", g.against},
		{"trimmed mean beside mean", g.trimmed},
		{"int8 beside f32", g.int8},
		{"1 MiB", g.small},
		{"2 to 16 peers", g.scaling},
		{"links of 200 Mbit/s", g.shaped},
		{"links with a round trip of 100 ms", g.long},
	} {
		fmt.Fprintf(cfg.Out, "measuring %s\n", part.what)
		before := len(g.Goals.Goals)
		if err := part.do(ctx); ctx.Err() != nil {
			return g.Goals, errors.Join(err, ctx.Err())
		} else if err != nil { // the others' figures are worth having
			errs = append(errs, fmt.Errorf("%s: %w", part.what, err))
			g.Goals.Goals = append(g.Goals.Goals, Goal{What: part.what, Missing: err.Error()})
		}
		// these are printed even if it is ended early
		Goals{Goals: g.Goals.Goals[before:]}.Print(cfg.Out)
	}
	g.memory()
	return g.Goals, errors.Join(errs...)
}

func (g *goalRun) atMost(limit, measured float64, note, what string, args ...any) {
	g.Goals.Goals = append(g.Goals.Goals, Goal{
		What: fmt.Sprintf(what, args...), Limit: limit, Measured: measured,
		Met: measured <= limit, Note: note,
	})
}

func (g *goalRun) atLeast(limit, measured float64, what string) {
	g.Goals.Goals = append(g.Goals.Goals, Goal{
		What: what, Limit: limit, AtLeast: true, Measured: measured,
		Met: measured >= limit,
	})
}

func (g *goalRun) missing(limit float64, why, what string) {
	g.Goals.Goals = append(g.Goals.Goals, Goal{What: what, Limit: limit, Missing: why})
}

// cases measures the default case, changed in each of several ways, in one run.
func (g *goalRun) cases(ctx context.Context, against string, change ...func(*Config)) ([]Result, error) {
	cfgs := make([]Config, len(change))
	for i, f := range change {
		cfgs[i] = g.cfg
		f(&cfgs[i])
	}
	cfgs[0].Against = against
	results, err := measure(ctx, cfgs)
	g.Results = append(g.Results, results...)
	return results, err
}

func unchanged(*Config)      {}
func withoutRoots(c *Config) { c.Roots = false }

func (g *goalRun) against(ctx context.Context) error {
	const most, aim, cpu, share = 1.5, 1.2, .80, 1.4
	const what = "f32 mean, 4 peers, 64 MiB: time against plaintext OpenMPI over TCP"
	against := MPI
	if err := needsMPI(); err != nil {
		g.missing(most, err.Error(), what)
		against = ""
	}
	r, err := g.cases(ctx, against, unchanged, withoutRoots)
	if err != nil {
		return err
	}
	a := r[0].Against
	if a != nil {
		note := fmt.Sprintf("aim %.1f; theirs %s, CPU %.2f s a GB", aim, bench.Seconds(a.Seconds.Median), a.CPU)
		g.atMost(most, a.Ratio, note, what+", with roots")
		g.atMost(most, r[1].Seconds.Median/a.Seconds.Median, note, what+", without roots")
	}
	note := fmt.Sprintf("with roots %.2f; hashing takes %.2f a GB", r[0].CPU, r[0].Beside.HashCPU)
	g.atMost(cpu, r[1].CPU, note, "the same: CPU seconds a GB on the wire, without roots")
	if a != nil { // machines differ by a factor of two: .80 was set where OpenMPI took .57
		g.atMost(share, r[1].CPU/a.CPU, fmt.Sprintf("%.2f and %.2f s a GB; with roots %.2f of theirs", r[1].CPU, a.CPU,
			r[0].CPU/a.CPU),
			"the same: CPU against OpenMPI's, without roots")
	}
	return nil
}

func (g *goalRun) trimmed(ctx context.Context) error {
	r, err := g.cases(ctx, "", unchanged, func(c *Config) { c.Aggregator = string(allreduce.TrimmedMean) })
	if err == nil {
		g.atMost(1.05, r[1].Seconds.Median/r[0].Seconds.Median, cpuOf(r),
			"trimmed mean, 4 peers, 64 MiB: time against mean")
	}
	return err
}

func cpuOf(r []Result) string { return fmt.Sprintf("CPU %.2f and %.2f s a GB", r[1].CPU, r[0].CPU) }

func (g *goalRun) int8(ctx context.Context) error {
	const most, what, name = .45, "int8, 4 peers, 64 MiB: time against f32", "int8"
	if !slices.Contains(codec.Names(), name) {
		g.missing(most, "this program has no such codec", what)
		return nil
	}
	r, err := g.cases(ctx, "", unchanged, func(c *Config) { c.Codec = name })
	if err == nil {
		g.atMost(most, r[1].Seconds.Median/r[0].Seconds.Median, cpuOf(r), what)
	}
	return err
}

func (g *goalRun) small(ctx context.Context) error {
	against := MPI
	if needsMPI() != nil {
		against = ""
	}
	r, err := g.cases(ctx, against, func(c *Config) { c.Elements = 1 << 18 })
	if err != nil {
		return err
	}
	note := "on an idle machine; least " + bench.Seconds(r[0].Seconds.Min)
	if a := r[0].Against; a != nil {
		note += fmt.Sprintf("; OpenMPI %s, least %s", bench.Seconds(a.Seconds.Median), bench.Seconds(a.Seconds.Min))
	}
	g.atMost(.005, r[0].Seconds.Median, note, "1 MiB, 4 peers: seconds")
	return nil
}

// scaling has a vector small enough for 30 processes at once.
func (g *goalRun) scaling(ctx context.Context) error {
	var change []func(*Config)
	for _, n := range []int{2, 4, 8, 16} {
		change = append(change, func(c *Config) { c.Peers, c.Elements = n, 8<<20 })
	}
	r, err := g.cases(ctx, "", change...)
	if err != nil {
		return err
	}
	var cpu []float64
	for _, x := range r {
		cpu = append(cpu, x.CPU)
	}
	g.atMost(1.15, slices.Max(cpu)/slices.Min(cpu), fmt.Sprintf("%.2f s a GB", cpu),
		"2, 4, 8, 16 peers, 32 MiB: highest CPU a GB against lowest")
	return nil
}

const linkRate = 200e6

const tcpHeaders = 52 // of each packet

// headers is what TCP and IP add, as a factor. A link's rate counts IP packets, not Ethernet's 14
// bytes (the kernel's token buckets count these, and have a rate that is greater by as much).
func (l Links) headers() float64 {
	return float64(bench.MTU(l.Kernel)) / float64(bench.MTU(l.Kernel)-tcpHeaders)
}

// ideal is the seconds that a link with a rate needs for the float32 values that a peer must send,
// with headers. It is 0 without a rate, or if fewer bytes are enough.
func (r Result) ideal() float64 {
	if r.Links == nil || r.Links.BitsPerSecond == 0 || r.Codec != codec.F32 {
		return 0
	}
	return r.busFactor() * float64(r.Bytes) * r.Links.headers() * 8 / float64(r.Links.BitsPerSecond)
}

func (g *goalRun) shaped(ctx context.Context) error {
	const most, what = 1.03, "200 Mbit/s links, 4 peers, 32 MiB: time against the bytes with TCP's headers over the " +
		"rate"
	if os.Geteuid() != 0 {
		g.missing(most, "it needs root", what)
		return nil
	}
	r, err := g.cases(ctx, "", func(c *Config) { c.Namespaces, c.Rate, c.Elements = true, linkRate, 8<<20 })
	if err == nil {
		ideal := r[0].ideal()
		g.atMost(most, r[0].Seconds.Median/ideal,
			fmt.Sprintf("%s where %s is ideal", bench.Seconds(r[0].Seconds.Median), bench.Seconds(ideal)), what)
	}
	return err
}

// long measures what links carry in the long run, with a vector so large that the first round trips
// of a round hardly count.
func (g *goalRun) long(ctx context.Context) error {
	const least = .85
	for _, transport := range []string{"tcp", "quic"} {
		what := "the same with a round trip of 100 ms, 256 MiB, " + transport + ": share of the link"
		if os.Geteuid() != 0 {
			g.missing(least, "it needs root", what)
			continue
		}
		r, err := g.cases(ctx, "", func(c *Config) {
			c.Namespaces, c.Rate, c.Delay, c.Transport = true, linkRate, 50*time.Millisecond, transport
			c.Elements, c.Iters = 64<<20, min(c.Iters, 3)
		})
		if err != nil {
			return err
		}
		g.atLeast(least, r[0].BusBW*r[0].Links.headers()*8/linkRate, what)
	}
	return nil
}

// memory holds the peak of every case that was measured against its goal, and notes the worst.
func (g *goalRun) memory() {
	const beside = 150 << 20
	worst, note := 0.0, ""
	for _, r := range g.Results {
		if share := float64(r.Peak) / float64(3*r.Bytes+beside); share > worst {
			worst, note = share, fmt.Sprintf("%s of %s", humanize.IBytes(r.Peak), r.Case.String())
		}
	}
	g.atMost(1, worst, note, "peak memory of a peer over 3 vectors + 150 MiB, all cases")
}

// Print writes the goals for people.
func (g Goals) Print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHAT\tGOAL\tMEASURED\tMET\t")
	for _, x := range g.Goals {
		sign, measured, met := "<=", fmt.Sprintf("%.3f", x.Measured), "yes"
		if x.AtLeast {
			sign = ">="
		}
		switch {
		case x.Missing != "":
			measured, met, x.Note = "-", "-", x.Missing
		case !x.Met:
			met = "NO"
		}
		fmt.Fprintf(w, "%s\t%s %g\t%s\t%s\t%s\n", x.What, sign, x.Limit, measured, met, x.Note)
	}
	_ = w.Flush() // out is the terminal, so the error could not be shown
}
