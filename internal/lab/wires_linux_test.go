package lab

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestWires makes a network of the kernel's links where that is allowed, looks at it from a node,
// and at what is left.
func TestWires(t *testing.T) {
	w, err := NewWires(t.Context(), Config{Nodes: 2, Link: Link{Rate: 200e6}, Name: "wirestest"})
	if err != nil {
		if os.Getuid() == 0 && !errors.Is(err, ErrNotRoot) && !strings.Contains(err.Error(), "iproute2") &&
			!strings.Contains(err.Error(), "sch_tbf") {
			t.Fatal(err)
		}
		t.Log("no links here, only NewWires' error was checked:", err)
		return
	}
	defer w.Close()
	inside := func(node int, program string, args ...string) string {
		cmd := exec.Command(program, args...)
		if err := w.Place(node, cmd); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", program, err, out)
		}
		return string(out)
	}
	if got := inside(1, "tc", "qdisc", "show", "dev", deviceName); !strings.Contains(got, "tbf") ||
		!strings.Contains(got, "rate 201") {
		t.Errorf("node 1's link: %s", got)
	}
	if got := inside(0, "ip", "route", "get", w.Addr(1).String()); !strings.Contains(got, "dev "+deviceName) {
		t.Errorf("from node 0 to node 1: %s", got)
	}
	if err := w.Place(2, exec.Command("true")); err == nil {
		t.Error("placed a command on the bridge")
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Error(err)
	}
	if names, _ := filepath.Glob(filepath.Join(namespaces,
		"wirestest-"+strconv.Itoa(os.Getpid())+"-*")); len(names) != 0 {
		t.Errorf("after Close: %q", names)
	}
}

// TestWiresCarry sends bytes between two nodes: the pairs, the bridge and the buckets are
// connected. Rates are the benchmark's.
func TestWiresCarry(t *testing.T) {
	w, err := NewWires(t.Context(), Config{Nodes: 2, Link: Link{Rate: 1e9}, Name: "wirestest"})
	if err != nil {
		t.Log("no links here:", err)
		return
	}
	defer w.Close()
	from, to := connect(t, w)
	go func() { _, _ = from.Write([]byte("through the wires")) }()
	got := make([]byte, 17)
	if _, err := io.ReadFull(to, got); err != nil || string(got) != "through the wires" {
		t.Errorf("%q, %v", got, err)
	}
}
