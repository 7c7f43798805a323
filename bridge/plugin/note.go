package plugin

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
)

// note is the beginning of the file that the host is started with, as in host.h: both sides are of
// one build. The peer's texts follow. The host's report about the library outlives the host.
type note struct {
	Doing   [64]byte
	Problem [2048]byte
	Name    [256]byte
	Types   [4]uint32
	Can     uint32
	_       uint32
	Seed    uint64
}

// Optional abilities of a library.
const (
	canExportGradient = 1 << iota
	canEvaluate
	canSave
)

// newNote makes the file. It has no name.
func newNote(cfg Config, library, socket string) (*os.File, error) {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.NativeEndian, note{Seed: cfg.Seed}); err != nil {
		return nil, err
	}
	for _, text := range []string{library, cfg.Config, cfg.DataDir, socket} {
		b.WriteString(text + "\x00")
	}
	f, err := os.CreateTemp(cfg.DataDir, "host-")
	if err != nil {
		return nil, err
	}
	if err = os.Remove(f.Name()); err == nil {
		_, err = f.Write(b.Bytes())
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// readNote reads what the host has said so far.
func readNote(f *os.File) (n note, err error) {
	b := make([]byte, binary.Size(n))
	if _, err = f.ReadAt(b, 0); err == nil {
		_, err = binary.Decode(b, binary.NativeEndian, &n)
	}
	return n, err
}

// text is what stands before the first NUL. The library shares the host's process and may write
// anything there.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return oneLine(string(b))
}

func (n *note) about() About {
	var types []string
	for kind, name := range []string{1: "f32", 2: "bf16", 3: "f16"} {
		if count := n.Types[kind]; count > 0 {
			types = append(types, fmt.Sprint(count, " ", name))
		}
	}
	return About{
		Name: text(n.Name[:]), Types: strings.Join(types, ", "), ExportsGradient: n.Can&canExportGradient != 0,
		Evaluates: n.Can&canEvaluate != 0, Saves: n.Can&canSave != 0,
	}
}

// About describes a library, in its own words.
type About struct {
	Name            string // of the trainer and its version
	Types           string // of the live tensors, like "14 f32, 2 bf16"
	ExportsGradient bool   // it computes the pseudo-gradient itself, perhaps on the device
	Evaluates       bool   // it measures the held-out loss
	Saves           bool   // it can save and restore its private state
}
