package spec

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/kernel"
	"github.com/p2pdiloco/p2pdiloco/p2p"
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

// The run ID of a given spec must never change: peers of different releases would not meet.
func TestRunIDIsPinned(t *testing.T) {
	for trust, want := range map[string]struct {
		size int
		id   string
	}{
		"":         {804, "99f167e8eb265c6168a1348702976b89fb340eeea9bd4da57c324153d26ccc1d"},
		TrustCrash: {799, "9907b90336e8e2ead22ab05c8df240b0d1578e6742a5dbe942f25c418535aaf5"},
	} {
		s := Spec{Name: "demo", Trust: trust, Layout: trainer.Layout{{Name: "w", Shape: []uint64{2, 3}}}}.Settled()
		if n := len(s.Append(nil)); n != want.size {
			t.Errorf("trust %q: the encoding takes %d bytes, not %d", trust, n, want.size)
		}
		if got := s.RunID().String(); got != want.id {
			t.Errorf("trust %q: run ID %s", trust, got)
		}
	}
}

// A second implementation is written by docs/protocol.md: with a stale number of fields, default or
// example it makes other run IDs, and meets nobody.
func TestTheProtocolPageHasTheFieldsAndTheExample(t *testing.T) {
	b, err := os.ReadFile("../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{Name: "demo", Trust: TrustCrash, Layout: trainer.Layout{{Name: "w", Shape: []uint64{2, 3}}}}.Settled()
	for _, want := range []string{
		fmt.Sprintf("field count u16 (%d) | %[1]d x (name bytes, text bytes)", len(table)),
		fmt.Sprintf("| protocol, kernel | `%s`, `%s` |", ProtocolVersion, KernelVersion),
		fmt.Sprintf("Example: name `demo`, trust `crash`, one tensor `w` of shape 2x3, all else default: "+
			"%d bytes, run ID\n`%s`",
			len(s.Append(nil)), s.RunID()),
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("docs/protocol.md does not say %q", want)
		}
	}
	_, section, _ := strings.Cut(string(b), "\n## 4. ")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, f := range table {
		if f.Name != "protocol" && f.Name != "kernel" && !strings.Contains(section, "\n| "+f.Name+" | ") {
			t.Errorf("docs/protocol.md has no field %s in its table", f.Name)
		}
	}
}

func TestVersionsAreThoseOfTheParts(t *testing.T) {
	if ProtocolVersion != strconv.Itoa(p2p.Version) || KernelVersion != strconv.Itoa(kernel.Version) {
		t.Errorf("protocol %s and kernel %s, the parts say %d and %d", ProtocolVersion, KernelVersion, p2p.Version,
			kernel.Version)
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
		depends := f.Name == "fragment_delay" || f.Name == "round_time"
		if f.Help != "" && f.Default != "" && !depends && !strings.Contains(f.Help, "default "+f.Default) {
			t.Errorf("%s: the default is %s, and the help %q", f.Name, f.Default, f.Help)
		}
	}
}
