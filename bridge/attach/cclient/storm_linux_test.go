package cclient

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/memory"
	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/testlevel"
)

// said is a part of what a node says. With its first byte may go descriptors.
type said struct {
	bytes []byte
	files int // of 10 elements each; -1: the second one is shorter than SHARE says
}

// sane is a node's part of a conversation of a rank whose tensors have 10 elements.
func sane() []said { return conversation(10, memory.Offset, 2) }

// shares are conversations in which SHARE does not fit: too many elements, a place that no float32
// has, and less memory than SHARE says.
func shares() [][]said {
	return [][]said{
		conversation(20, memory.Offset, 2), conversation(10, memory.Offset+2, 2), conversation(10, memory.Offset, -1),
	}
}

func conversation(elements, offset uint64, files int) []said {
	share := &wire.Share{Elements: elements, Offset: offset, Size: memory.Size(10), Epoch: 1, Writes: []byte{1, 1}}
	all := []said{
		{wire.Append(nil, 1, &wire.Welcome{Version: wire.Version, Run: "storm", DataDir: "/data", PID: 1}), 0},
		{wire.Append(nil, 2, share), files},
	}
	for i, m := range []wire.Message{
		&wire.Info{RunID: "abcd", Mode: "sync", InnerSteps: 3}, &wire.Fill{}, &wire.Load{End: elements, Generation: 1},
		&wire.Evaluate{}, &wire.Train{Slot: 1, Steps: 3, Look: 1, Export: wire.ExportGradient, MemberIDs: "a\nb"},
		&wire.Go{}, &wire.Notice{Text: "paused"}, &wire.Export{Begin: 2, End: 9, Kind: wire.ExportParams},
		&wire.Save{Folder: "/data/1"}, &wire.Restore{Folder: "/data/1", World: 2}, &wire.Cancel{},
		&wire.Load{Begin: 3, End: 4, Generation: 2}, &wire.Error{Code: wire.CodeEnded, Text: "the run has ended"},
	} {
		id := uint64(i)
		if _, answers := m.(*wire.Go); answers {
			id = 3 // of the rank's first AT, after HELLO and LAYOUT
		}
		all = append(all, said{wire.Append(nil, id, m), 0})
	}
	return all
}

// storm makes something of a conversation that no node says.
func storm(r *rand.Rand, all []said) []said {
	for range 1 + r.IntN(3) {
		i, j := r.IntN(len(all)), r.IntN(len(all))
		m := &all[i]
		b := bytes.Clone(m.bytes)
		switch r.IntN(7) {
		case 0: // bytes are others
			for range 1 + r.IntN(4) {
				b[r.IntN(min(len(b), 1<<r.IntN(10)))] = byte(r.Uint32())
			}
		case 1: // it ends in the middle, and so does all
			m.bytes = b[:r.IntN(len(b))]
			return all[:i+1]
		case 2: // its body has another size
			binary.LittleEndian.PutUint32(b, r.Uint32()>>r.IntN(32))
		case 3: // another order
			all[i], all[j] = all[j], all[i]
			continue
		case 4: // a number is an extreme one
			if len(b) >= 32 {
				extreme := []uint64{0, 1, 10, 11, 1 << 31, 1 << 32, 1<<63 - 1, 1 << 63, 1<<64 - 1}
				binary.LittleEndian.PutUint64(b[24+16*r.IntN((len(b)-16)/16):], extreme[r.IntN(len(extreme))])
			}
		case 5: // its fields are there twice, and a long one is
			b = append(append(b, b[16:]...), uint8(r.IntN(17)), 0, 0, 0, 0, 0, 1, 0)
			b = append(b, make([]byte, 1<<16)...)
			binary.LittleEndian.PutUint32(b, uint32(len(b)-16))
		case 6: // too few descriptors, too many, or shorter ones
			m.files = []int{0, 1, 3, -1}[r.IntN(4)]
			continue
		}
		m.bytes = b
	}
	return all
}

// speak says all of it to a rank, whatever that answers, and waits until the rank hangs up.
func speak(c *net.UnixConn, all []said) error {
	heard := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c)
		heard <- err
	}()
	for _, m := range all {
		if err := say(c, m); err != nil {
			break // it has hung up
		}
	}
	_ = c.CloseWrite()
	err := <-heard
	if errors.Is(err, unix.ECONNRESET) {
		err = nil
	}
	return err
}

func say(c *net.UnixConn, m said) error {
	if m.files == 0 || len(m.bytes) == 0 {
		_, err := c.Write(m.bytes)
		return err
	}
	var fds []int
	size := memory.Size(10)
	for i := range max(m.files, 2) {
		if m.files < 0 && i == 1 {
			size = 4096
		}
		f, err := memory.New(context.Background(), size)
		if err != nil {
			return err
		}
		defer f.Close()
		if fds = append(fds, int(f.Fd())); len(fds) == m.files {
			break
		}
	}
	if _, _, err := c.WriteMsgUnix(m.bytes[:1], unix.UnixRights(fds...), nil); err != nil {
		return err
	}
	_, err := c.Write(m.bytes[1:])
	return err
}

// TestWhateverANodeSays: torn, oversized and garbled messages, in any order, with any numbers and
// descriptors. The client ends with a sentence each time: it does not hang, touches no memory
// beyond its own (the sanitizers stop it), and leaks none. With a SHARE of more elements than the
// rank's tensors have, it loaded over the end of the parameters, and with a descriptor of less
// memory than SHARE said it died of a SIGBUS.
func TestWhateverANodeSays(t *testing.T) {
	program := compile(t, "testdata/storm.c")
	cases := testlevel.Choose(60, 150, 20_000)
	path := filepath.Join(t.TempDir(), "attach.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	do(t, err)
	defer l.Close()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, fmt.Sprint(cases))
	cmd.Env = append(os.Environ(), attach.Variable+"="+path)
	cmd.Stdout, cmd.Stderr = &out, &errs
	do(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	random, unfit := testlevel.Random(t), shares()
	for n := range cases {
		all := sane()
		switch {
		case n > len(unfit):
			all = storm(random, all)
		case n > 0:
			all = unfit[n-1]
		}
		_ = l.SetDeadline(time.Now().Add(time.Minute))
		c, err := l.AcceptUnix()
		if err == nil {
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			err = speak(c, all)
			_ = c.Close()
		}
		if err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("conversation %d: %v\n%s%s\n%x", n, err, lastLines(out.String()), errs.String(), all)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s%s", err, lastLines(out.String()), errs.String())
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) != cases || lines[0] != "1 the run has ended" {
		t.Fatalf("%d ends of %d, the first %q", len(lines), cases, lines[0])
	}
	for _, line := range lines[1 : 1+len(unfit)] {
		if line != "2 the node shares memory that does not fit this layout" {
			t.Errorf("memory that does not fit: %q", line)
		}
	}
	ends := map[string]int{}
	for _, line := range lines {
		status, text, _ := strings.Cut(line, " ")
		if !strings.Contains("123", status) || text == "" && status != "1" {
			t.Errorf("it ends with %q", line)
		}
		ends[line]++
	}
	t.Logf("%d conversations had %d ends: %v", cases, len(ends), ends)
}

func lastLines(text string) string { return text[max(0, len(text)-500):] }
