package modes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/lab/bench"
	"github.com/p2pdiloco/p2pdiloco/internal/node/replica"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// measuredNode is set in the processes of TestMemoryOfANode: the order of one.
const measuredNode = "P2PDILOCO_MEASURED_NODE"

// order is what such a process does.
type order struct {
	Spec     p2pdiloco.Spec
	Elements uint64
	Vectors  bool   // the trainer brings the rounds' vectors, too
	Slots    int    // after which the process ends at once; 0: it ends with the run
	Group    string // folder of the control group to enter; empty: none

	Bootstrap []string
	Dir       string
	Addrs     string // file for the own addresses
	Found     string // file for what was found
}

// found is what such a process says in the end.
type found struct {
	Anonymous float64   // bytes, the most that were at once beside files
	Resident  float64   // bytes, the most with files
	Disk      float64   // bytes, the most in the data directory after a slot
	Slots     []float64 // seconds from one to the next
}

// A node takes no more memory of its own than it says before it joins a run, and its vectors are
// those that it says. Its trainer's vector is in a file here, so it does not count; in mode
// streaming the state's vectors are, too.
func TestMemoryOfANode(t *testing.T) {
	if text := os.Getenv(measuredNode); text != "" {
		if err := measured(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		return
	}
	elements := testutil.Choose[uint64](0, 1<<24, 1<<26)
	if elements == 0 {
		t.Skip("it takes a minute")
	}
	const state, rounds, int8Size = 2, 1, 260. / 1024
	// at most: the frames of the other node, garbage, what does not grow with the model
	const beside = 100 << 20
	streaming := p2pdiloco.Spec{Mode: p2pdiloco.ModeStreaming, Fragments: 8, InnerSteps: 8}
	for name, c := range map[string]struct {
		spec    p2pdiloco.Spec
		brings  bool // the trainer brings the rounds' vectors
		nightly bool
		vectors float64 // that live at once
		// vectors that it counts, too: a contribution that only a slow link holds, the trainer's
		more float64
	}{
		"sync":            {p2pdiloco.Spec{}, false, false, state + rounds + 2, 1},
		"int8":            {p2pdiloco.Spec{Codec: "int8"}, false, true, state + 2*rounds + 3 + 2*int8Size, int8Size},
		"eager":           {p2pdiloco.Spec{Mode: p2pdiloco.ModeEager}, false, true, 1 + 2*rounds + 3, 0},
		"streaming":       {streaming, false, false, 2*rounds + 2./8, 1. / 8},
		"trainer's rooms": {streaming, true, true, 2. / 8, 1./8 + 2*rounds},
	} {
		t.Run(name, func(t *testing.T) {
			if c.nightly && !testutil.Nightly() {
				t.Skip("at night")
			}
			s := c.spec
			s.Name, s.StartPeers, s.MinPeers, s.Trust = "memory", 2, 2, p2pdiloco.TrustCrash
			s.Rounds = testutil.Choose[uint64](3, 3, 6) // a vector kept for each shows in three
			if s.Fragments > 0 {
				s.Rounds = 2
			}
			one := order{Spec: s, Elements: elements, Vectors: c.brings}
			nodes := measure(t, [2]order{one, one})
			s.Layout = trainer.Layout{{Name: "x", Shape: []uint64{elements}}}
			vector := 4 * float64(elements)
			live := float64(replica.LiveMemory(s.Settled())) / vector
			says := float64(replica.NodeMemory(s.Settled())) / vector
			if math.Abs(live-c.vectors-c.more) > .001 {
				t.Errorf("it says that %.3f vectors live, and these are %.3f", live, c.vectors+c.more)
			}
			least := math.Inf(1)
			for _, n := range nodes {
				took := n.Anonymous / vector
				t.Logf("%.2f vectors at most, %.2f live; it says %.2f; a slot took %.2f s", took, c.vectors, says,
					n.Slots)
				if took > says || took < c.vectors {
					t.Errorf("%.2f vectors where %.2f live, and it says %.2f", took, c.vectors, says)
				}
				least = min(least, took)
			}
			// the other one may have waited for a core: then its link was slow
			if least > c.vectors+beside/vector {
				t.Errorf("both nodes take %.2f vectors or more, where %.2f live", least, c.vectors)
			}
		})
	}
}

// measure runs two nodes, the first of which founds the run.
func measure(t *testing.T, orders [2]order) (all [2]found) {
	dir := t.TempDir()
	var bootstrap []string
	ended := [2]<-chan error{}
	for i, o := range orders {
		o.Bootstrap, o.Dir = bootstrap, filepath.Join(dir, fmt.Sprint(i))
		o.Addrs, o.Found = o.Dir+"-addrs", o.Dir+"-found"
		ended[i] = begin(t, o)
		for i == 0 && read(o.Addrs, &bootstrap) != nil {
			select {
			case err := <-ended[0]:
				t.Fatalf("it has ended: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
		}
		orders[i] = o
	}
	for i, o := range orders {
		if err := errors.Join(<-ended[i], read(o.Found, &all[i])); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// begin starts a process, and tells when it has ended.
func begin(t *testing.T, o order) <-chan error {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestMemoryOfANode$", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), measuredNode+"="+string(text))
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		if err := cmd.Wait(); err != nil {
			ended <- fmt.Errorf("%w: %s", err, out.String())
		}
		close(ended)
	}()
	return ended
}

func read(file string, v any) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

func write(file string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(file+"~", b, 0o600), os.Rename(file+"~", file))
}

// measured is a node whose process is measured.
func measured(ctx context.Context, text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if o.Group != "" {
		if err := os.WriteFile(filepath.Join(o.Group, "cgroup.procs"), fmt.Append(nil, os.Getpid()), 0); err != nil {
			return err
		}
	}
	data := filepath.Join(o.Dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	n := &noiseTrainer{dir: o.Dir, elements: int(o.Elements)}
	var err error
	if n.x, err = n.vector(); err != nil {
		return err
	}
	var t trainer.Trainer = n
	if o.Vectors {
		t = vectorTrainer{n}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var f found
	var last time.Time
	node, err := p2pdiloco.Join(ctx, p2pdiloco.Config{
		Spec: o.Spec, Trainer: t, DataDir: data, Preset: p2pdiloco.PresetLAN,
		Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Bootstrap: o.Bootstrap,
		Found: len(o.Bootstrap) == 0, AtOnce: len(o.Bootstrap) == 0,
		OnEvent: func(e p2pdiloco.Event) {
			if e.Name != "slot.applied" {
				return
			}
			if !last.IsZero() {
				f.Slots = append(f.Slots, time.Since(last).Seconds())
			}
			last, f.Disk = time.Now(), max(f.Disk, used(data))
			if o.Slots > 0 && len(f.Slots) == o.Slots {
				cancel()
			}
		},
	})
	if err != nil {
		return err
	}
	if err := write(o.Addrs, node.Addrs()); err != nil {
		return err
	}
	over, most := make(chan struct{}), make(chan float64)
	go func() { most <- peakAnonymous(over) }()
	err = node.Run(ctx)
	if o.Slots > 0 { // a checkpoint now would take its time
		close(over)
		f.Anonymous, f.Resident = <-most, bench.PeakMemory()
		if err := write(o.Found, f); err != nil {
			return err
		}
		os.Exit(0)
	}
	err = errors.Join(err, node.Close())
	close(over)
	f.Anonymous, f.Resident = <-most, bench.PeakMemory()
	return errors.Join(err, write(o.Found, f))
}

// peakAnonymous is the most memory of the process that belongs to no file, in bytes, until over is
// closed.
func peakAnonymous(over chan struct{}) (most float64) {
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		b, _ := os.ReadFile("/proc/self/status")
		_, rest, _ := strings.Cut(string(b), "\nRssAnon:")
		var kb float64
		_, _ = fmt.Sscan(rest, &kb)
		most = max(most, 1024*kb)
		select {
		case <-over:
			return most
		case <-look.C:
		}
	}
}

// used is how many bytes of the disk the files of a folder take.
func used(dir string) (n float64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it has been removed meanwhile
		}
		if info, err := e.Info(); err == nil {
			n += 512 * float64(info.Sys().(*syscall.Stat_t).Blocks)
		}
		return nil
	})
	return n
}

// noiseTrainer adds noise to its parameters, which no compression makes small. They lie in a file.
type noiseTrainer struct {
	dir      string
	elements int
	x        []float32
}

// vector makes one in a file.
func (n *noiseTrainer) vector() ([]float32, error) {
	b, _, err := disk.OS.Scratch(n.dir, 4*n.elements)
	return kernel.Float32s(b), err
}

func (n *noiseTrainer) Layout() trainer.Layout {
	return trainer.Layout{{Name: "x", Shape: []uint64{uint64(n.elements)}}}
}

func (n *noiseTrainer) Init(context.Context, []float32) error { return nil }

func (n *noiseTrainer) Load(_ context.Context, anchor []float32) error {
	copy(n.x, anchor)
	return nil
}

func (n *noiseTrainer) LoadRange(_ context.Context, begin int, src []float32) error {
	copy(n.x[begin:], src)
	return nil
}

func (n *noiseTrainer) Train(_ context.Context, task trainer.Task) (trainer.Stats, error) {
	kernel.Ranges(len(n.x), func(begin, end int) {
		random := uint32(begin+1)*2654435761 ^ uint32(task.Slot)
		for i := begin; i < end; i++ {
			random ^= random << 13
			random ^= random >> 17
			random ^= random << 5
			n.x[i] += float32(int32(random)) * 1e-12
		}
	})
	return trainer.Stats{Steps: task.Steps, Tokens: uint64(task.Steps)}, nil
}

func (n *noiseTrainer) Export(_ context.Context, dst []float32) error {
	copy(dst, n.x)
	return nil
}

func (n *noiseTrainer) ExportRange(_ context.Context, begin int, dst []float32) error {
	copy(dst, n.x[begin:])
	return nil
}

// vectorTrainer has the rounds' vectors in files, too.
type vectorTrainer struct{ *noiseTrainer }

func (v vectorTrainer) MakeVectors(int) (start, local []float32, err error) {
	if start, err = v.vector(); err == nil {
		local, err = v.vector()
	}
	return start, local, err
}
