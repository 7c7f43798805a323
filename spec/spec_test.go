package spec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
	"github.com/p2pdiloco/p2pdiloco/internal/wire"
	"github.com/p2pdiloco/p2pdiloco/outeropt"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

func testSpec() Spec {
	return Spec{Name: "tiny", Layout: trainer.Layout{
		{Name: "w", Shape: []uint64{300, 10}},
		{Name: "b", Shape: []uint64{10}},
	}}
}

func TestSpecRoundTripKeepsTheRunID(t *testing.T) {
	s := testSpec()
	s.Discount = []uint64{1000, 500}
	s = s.Settled()
	got, err := Parse(s.Append(nil))
	if err != nil {
		t.Fatal(err)
	}
	if got.RunID() != s.RunID() {
		t.Fatalf("run ID %s became %s", s.RunID(), got.RunID())
	}
	other := s
	other.Layout = trainer.Layout{{Name: "w", Shape: []uint64{10, 300}}, {Name: "b", Shape: []uint64{10}}}
	if other.RunID() == s.RunID() {
		t.Fatal("the layout does not enter the run ID")
	}
}

// Every field given and different must be named, and no field left out may stand in the way.
func TestAdoptNamesTheFieldThatDiffers(t *testing.T) {
	run := testSpec()
	run.Discount, run.Nonce = []uint64{1000, 500}, 7
	run = run.Settled()
	if err := (Spec{Name: "tiny"}).Adopt(run, "p"); err != nil {
		t.Fatalf("a joiner that gives nothing was refused: %v", err)
	}
	for _, f := range table {
		given := run
		switch p := f.At(&given).(type) {
		case *string:
			*p += "x"
		case *uint64:
			*p++
		case *[]uint64:
			*p = []uint64{999}
		case *time.Duration:
			*p += time.Second
		case *[]trainer.PeerID:
			*p = []trainer.PeerID{"x"}
		}
		var differs *Error
		if err := given.Adopt(run, "p"); !errors.As(err, &differs) || differs.Field != f.Name {
			t.Errorf("%s differs, error: %v", f.Name, err)
		}
	}
	given := Spec{Name: "tiny", Layout: trainer.Layout{{Name: "v", Shape: []uint64{3}}}}
	if err := given.Adopt(run, "p"); err == nil || !strings.Contains(err.Error(), "tensor 0 is \"v\"") {
		t.Errorf("another layout: %v", err)
	}
}

// The bytes and the run ID of a given spec must never change within a protocol version: peers of
// different releases would not meet.
func TestGoldenSpecs(t *testing.T) {
	var text strings.Builder
	for _, trust := range []string{TrustByzantine, TrustCrash} {
		s := Spec{Name: "demo", Trust: trust, Layout: trainer.Layout{{Name: "w", Shape: []uint64{2, 3}}}}.Settled()
		fmt.Fprintf(&text, "trust %s\nrun ID %s\n%s", trust, s.RunID(), hex.Dump(s.Append(nil)))
	}
	testutil.Golden(t, "testdata/golden.txt", text.String())
}

// A spec of version 2 is refused by name, and one that is no spec is not taken for it.
func TestSpecsOfAnotherVersionAreNamed(t *testing.T) {
	old, err := os.ReadFile("testdata/version2.spec")
	if err != nil {
		t.Fatal(err)
	}
	var other *wire.VersionError
	if _, err := Parse(old); !errors.As(err, &other) || other.Theirs != "2" {
		t.Errorf("of version 2: %v", err)
	}
	for _, b := range [][]byte{nil, old[:9], []byte("no spec at all, but a text that is long enough")} {
		if _, err := Parse(b); err == nil || errors.As(err, &other) {
			t.Errorf("%q: %v", b, err)
		}
	}
}

// A second implementation is written by docs/spec/run.md: with a stale number of fields, default or
// example it makes other run IDs, and meets nobody.
func TestTheProtocolPageHasTheFieldsAndTheExample(t *testing.T) {
	b, err := os.ReadFile("../docs/spec/run.md")
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{Name: "demo", Trust: TrustCrash, Layout: trainer.Layout{{Name: "w", Shape: []uint64{2, 3}}}}.Settled()
	for _, want := range []string{
		fmt.Sprintf("field count u16 (%d, or %d with outcome_codec)", len(table)-1, len(table)),
		fmt.Sprintf("| protocol, kernel | `%s`, `%s` |", ProtocolVersion, KernelVersion),
		fmt.Sprintf("Example: name `demo`, trust `crash`, one tensor `w` of shape 2x3, all else default: "+
			"%d bytes, run ID\n`%s`",
			len(s.Append(nil)), s.RunID()),
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("docs/spec/run.md does not say %q", want)
		}
	}
	_, section, _ := strings.Cut(string(b), "\n## Spec and run ID")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, f := range table {
		if f.Name != "protocol" && f.Name != "kernel" && !strings.Contains(section, "\n| "+f.Name+" | ") {
			t.Errorf("docs/spec/run.md has no field %s in its table", f.Name)
		}
	}
}

// A spec without the field that came last is encoded as it was before that came.
func TestAFieldThatCameLater(t *testing.T) {
	s := testSpec().Settled()
	without := s.Append(nil)
	if n := int(without[1]); n != len(table)-1 || bytes.Contains(without, []byte("outcome_codec")) {
		t.Errorf("%d fields of %d are encoded", n, len(table))
	}
	s.OutcomeCodec = "int8"
	with := s.Append(nil)
	if got, err := Parse(with); err != nil || got.OutcomeCodec != "int8" ||
		got.RunID() == testSpec().Settled().RunID() {
		t.Errorf("outcome codec %q, %v", got.OutcomeCodec, err)
	}
	empty := bytes.Replace(with, []byte("\x04int8"), []byte("\x00"), 1)
	if _, err := Parse(empty); err == nil {
		t.Error("a field that could be left out is there, and empty")
	}
}

// A run with an optimizer that a program brought tells who does not have it what is missing.
func TestAnOuterOptimizerThatThisProgramLacks(t *testing.T) {
	step := func(_, _ []float32, _ [][]float32, _ outeropt.Config, _ outeropt.At) {}
	c := outeropt.Custom{Name: "still", Version: 3, Step: step}
	c.Golden, _ = c.Fingerprint()
	if err := outeropt.Register(c); err != nil {
		t.Fatal(err)
	}
	s := testSpec()
	s.Outer = c.Name
	s = s.Settled()
	if got, err := Parse(s.Append(nil)); err != nil || got.Kernel != KernelVersion+"+still/3" {
		t.Errorf("kernel %q, %v", got.Kernel, err)
	}
	for kernel, want := range map[string]string{
		KernelVersion + "+still/2": `is "still", version 2, and this program has version 3`,
		KernelVersion + "+moves/1": `is "moves", version 1, which this program does not have`,
		KernelVersion:              "with outer still it is " + KernelVersion + "+still/3",
		"9+still/3":                "allowed: " + KernelVersion,
		KernelVersion + "+still":   "and this program has version 3",
		KernelVersion + "+":        "which this program does not have",
	} {
		s.Kernel = kernel
		if _, err := Parse(s.Append(nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("kernel %q: want an error that says %q, got %v", kernel, want, err)
		}
	}
	for _, mode := range []string{ModeEager, ModeAsync} {
		if err := (Spec{Name: "x", Mode: mode, Outer: c.Name}).Validate(); err == nil {
			t.Errorf("mode %s took it", mode)
		}
	}
}

func TestTheKernelVersionIsThatOfThePart(t *testing.T) {
	if KernelVersion != strconv.Itoa(kernel.Version) {
		t.Errorf("kernel %s, the part says %d", KernelVersion, kernel.Version)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(testSpec().Settled().Append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := Parse(b)
		if err != nil {
			return
		}
		if got := s.Append(nil); string(got) != string(b) {
			t.Fatalf("parsed and encoded again: %x, not %x", got, b)
		}
		sizes := s.FragmentElements()
		for p, f := range s.Partition() {
			if f.Elements() != sizes[p] || sizes[p] == 0 {
				t.Fatalf("fragment %d of %d has %d elements", p, len(sizes), f.Elements())
			}
		}
	})
}

// The help of a flag says the founder's default where that does not depend on other fields.
func TestHelpSaysTheDefault(t *testing.T) {
	for _, f := range Table() {
		depends := f.Name == "fragment_delay"
		if f.Help != "" && f.Default != "" && !depends && !strings.Contains(f.Help, "default "+f.Default) {
			t.Errorf("%s: the default is %s, and the help %q", f.Name, f.Default, f.Help)
		}
	}
}
