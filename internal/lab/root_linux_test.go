package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// newLab makes a lab where that is allowed. Elsewhere it checks how New says so and returns nil:
// the test has then seen all it can.
func newLab(t *testing.T, cfg Config) *Lab {
	t.Helper()
	cfg.Name = "labtest"
	l, err := New(t.Context(), cfg)
	if err == nil {
		t.Cleanup(func() {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
		return l
	}
	if _, missing := os.Stat(tunPath); missing == nil && os.Getuid() == 0 && !errors.Is(err, ErrNotRoot) {
		t.Fatal(err)
	}
	if text := err.Error(); !strings.Contains(text, "root") && !strings.Contains(text, "modprobe tun") {
		t.Errorf("%q does not say what to do", text)
	}
	t.Log("no lab here, only New's error was checked:", err)
	return nil
}

// connect opens a TCP connection from node 0 to node 1.
func connect(t testing.TB, h *Hosts) (from, to net.Conn) {
	t.Helper()
	var listener net.Listener
	err := h.Space(1).Do(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(h.Addr(1), 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	err = h.Space(0).Do(func() (err error) {
		from, err = net.DialTimeout("tcp", listener.Addr().String(), 20*time.Second)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if to, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { from.Close(); to.Close() })
	return from, to
}

// TestNodesTalk sends bytes through two kernels' TCP and a link that loses some.
func TestNodesTalk(t *testing.T) {
	l := newLab(t, Config{Nodes: 2, Link: Link{Rate: 100e6, Delay: time.Millisecond, Loss: 10}})
	if l == nil {
		return
	}
	from, to := connect(t, &l.Hosts)
	sent := bytes.Repeat([]byte("through the lab "), 1<<16)
	go func() {
		_, _ = from.Write(sent)
		_ = from.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(to)
	if err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%d of %d bytes arrived whole: %v", len(got), len(sent), err)
	}
}

// TestCutStopsBytes waits for nothing while a node is cut, and for everything once it is healed.
func TestCutStopsBytes(t *testing.T) {
	l := newLab(t, Config{Nodes: 2})
	if l == nil {
		return
	}
	from, to := connect(t, &l.Hosts)
	if err := l.Cut(1); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	_ = to.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := to.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes through a cut: %v", n, err)
	}
	if err := l.Heal(); err != nil {
		t.Fatal(err)
	}
	_ = to.SetReadDeadline(time.Now().Add(30 * time.Second)) // the kernel sends again
	if n, err := to.Read(make([]byte, 1)); n != 1 {
		t.Fatalf("nothing came after the cut: %v", err)
	}
}

// TestDoComesBack compares the thread's namespace before, in and after Do.
func TestDoComesBack(t *testing.T) {
	l := newLab(t, Config{Nodes: 1})
	if l == nil {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	where := func() string {
		name, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	before, inside := where(), ""
	fault := errors.New("fault")
	err := l.Space(0).Do(func() error { inside = where(); return fault })
	if after := where(); !errors.Is(err, fault) || before != after || inside == before {
		t.Errorf("before %s, in %s, after %s: %v", before, inside, after, err)
	}
	if err := Space("labtest-none").Do(func() error { return nil }); err == nil {
		t.Error("did something in a namespace that is not there")
	}
}

// TestPlaceRunsInside starts a command that prints the addresses it sees.
func TestPlaceRunsInside(t *testing.T) {
	l := newLab(t, Config{Nodes: 2})
	if l == nil {
		return
	}
	cmd := exec.Command("cat", "/proc/net/fib_trie")
	if err := l.Place(1, cmd); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.Output()
	if err != nil || !strings.Contains(string(out), l.Addr(1).String()+"\n") ||
		strings.Contains(string(out), l.Addr(0).String()+"\n") {
		t.Errorf("in node 1: %s, %v", out, err)
	}
	if err := l.Place(2, exec.Command("true")); err == nil {
		t.Error("placed a command on a node that is not there")
	}
}

// TestNothingIsLeft looks for namespaces after Close, and for those of a process that died.
func TestNothingIsLeft(t *testing.T) {
	l := newLab(t, Config{Nodes: 2})
	if l == nil {
		return
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	left := Space(fmt.Sprintf("labtest-%d-1-1", dead.Process.Pid))
	stays := Space(fmt.Sprintf("labtest-%d-1-0", dead.Process.Pid)) // a folder
	if err := Space("").IP(t.Context(), "netns add "+string(left)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(stays.path(), 0o700); err != nil {
		t.Fatal(err)
	}
	if removed, err := clean("labtest"); err == nil || !slices.Equal(removed, []Space{stays, left}) {
		t.Errorf("cleaned %q, %v; %q was left", removed, err, left)
	}
	if err := os.Remove(stays.path()); err != nil {
		t.Fatal(err)
	}
	if removed, err := clean("labtest"); err != nil || removed != nil {
		t.Errorf("%q was left, %v", removed, err)
	}
	if err := RemoveSpaces([]Space{left}); err != nil {
		t.Errorf("what is gone: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if names, _ := filepath.Glob(filepath.Join(namespaces,
		"labtest-"+strconv.Itoa(os.Getpid())+"-*")); len(names) != 0 {
		t.Errorf("after Close: %q", names)
	}
	if err := l.Cut(0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Cut after Close: %v", err)
	}
}
