package attach

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

// said is a part of what a node says. With its first byte may go descriptors.
type said struct {
	bytes []byte
	files []int
}

// vector is a descriptor of memory of some bytes.
func vector(t *testing.T, size uint64) (fd int) {
	t.Helper()
	f, err := NewMemoryFile(t.Context(), size)
	do(t, err)
	t.Cleanup(func() { do(t, f.Close()) })
	return int(f.Fd())
}

// conversation is a node's part of a conversation of a rank whose tensors have 10 elements.
func conversation(elements, offset uint64, files ...int) []said {
	share := &wire.Share{Elements: elements, Offset: offset, Size: Size(10), Epoch: 1, Writes: []byte{1, 1}}
	welcome := &wire.Welcome{Version: wire.Version, Run: "storm", DataDir: "/data", PID: 1}
	all := []said{{wire.Append(nil, 1, welcome), nil}, {wire.Append(nil, 2, share), files}}
	for i, m := range []wire.Message{
		&wire.Info{RunID: "abcd", Mode: "sync", InnerSteps: 3}, &wire.Fill{}, &wire.Load{End: elements, Generation: 1},
		&wire.Evaluate{}, &wire.Train{Slot: 1, Steps: 3, Look: 1, Export: wire.ExportGradient, MemberIDs: "a\nb"},
		&wire.Go{}, &wire.Notice{Text: "paused"}, &wire.Export{Begin: 2, End: 9, Kind: wire.ExportParams},
		&wire.Restore{Folder: "/data/1", World: 2}, &wire.Load{Begin: 3, End: 4, Generation: 2},
		&wire.Error{Code: wire.CodeEnded, Text: "the run has ended"},
	} {
		id := uint64(i)
		if _, answers := m.(*wire.Go); answers {
			id = 3 // of the rank's first AT, after HELLO and LAYOUT
		}
		all = append(all, said{wire.Append(nil, id, m), nil})
	}
	return all
}

// storm makes something of a conversation that no node says. Of three descriptors the last one is
// of less memory.
func storm(r *rand.Rand, all []said, files []int) []said {
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
			m.files = [][]int{nil, files[:1], files, files[1:]}[r.IntN(4)]
			continue
		}
		m.bytes = b
	}
	return all
}

// speak says all of it to a rank, whatever that answers, and waits until the rank hangs up. After
// the part before pause it is silent for 2 s.
func speak(c *net.UnixConn, all []said, pause int) error {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	heard := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, c)
		heard <- err
	}()
	for i, m := range all {
		if i == pause {
			time.Sleep(2 * time.Second)
		}
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
	b := m.bytes
	if len(m.files) > 0 && len(b) > 0 {
		if _, _, err := c.WriteMsgUnix(b[:1], unix.UnixRights(m.files...), nil); err != nil {
			return err
		}
		b = b[1:]
	}
	_, err := c.Write(b)
	return err
}

func listen(t *testing.T) *net.UnixListener {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	do(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestWhateverANodeSays: torn, oversized and garbled messages, in any order, with any numbers and
// descriptors. The client ends with a sentence each time: it does not hang, touches no memory
// beyond its own (the sanitizers stop it), and leaks none. With a SHARE of more elements than the
// rank's tensors have, it loaded over the end of the parameters, and with a descriptor of less
// memory than SHARE said it died of a SIGBUS.
func TestWhateverANodeSays(t *testing.T) {
	t.Parallel()
	cases, l, random := testutil.Choose(20, 40, 20_000), listen(t), testutil.Random(t)
	cmd, out, errs := client(t, l.Addr().String(), "train", "1e-9", fmt.Sprint(cases))
	do(t, cmd.Start())
	files := []int{vector(t, Size(10)), vector(t, Size(10)), vector(t, 4096)}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		_ = l.Close() // it is not waited for any more
	}()
	// too many elements, a place that no float32 has, less memory than SHARE says; ranges that end
	// beyond the model, or before they begin
	unfit := [][]said{
		conversation(20, Offset, files[:2]...), conversation(10, Offset+2, files[:2]...),
		conversation(10, Offset, files[1:]...), conversation(10, Offset, files[:2]...),
		conversation(10, Offset, files[:2]...),
	}
	unfit[3][4].bytes = wire.Append(nil, 1, &wire.Load{Begin: 3, End: 11})
	unfit[4][4].bytes = wire.Append(nil, 1, &wire.Export{Begin: 9, End: 8})
	for n := range cases {
		all := conversation(10, Offset, files[:2]...)
		switch {
		case n > len(unfit):
			all = storm(random, all, files)
		case n > 0:
			all = unfit[n-1]
		}
		_ = l.SetDeadline(time.Now().Add(time.Minute))
		c, err := l.AcceptUnix()
		if err == nil {
			err = speak(c, all, -1)
		}
		if err != nil {
			_ = cmd.Process.Kill()
			t.Fatalf("conversation %d: %v, %v\n%s%s\n%x", n, err, <-ended, lastLines(out.String()),
				lastLines(errs.String()), all)
		}
	}
	do(t, <-ended)
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	const unmapped, asks = "2 the node shares memory that does not fit", "2 the node asks for a range that is not there"
	if len(lines) != cases {
		t.Fatalf("%d ends of %d", len(lines), cases)
	}
	for i, want := range []string{"1 the run has ended", unmapped, unmapped, unmapped, asks, asks} {
		if !strings.HasPrefix(lines[i], want) {
			t.Errorf("conversation %d ends with %q, want %q", i, lines[i], want)
		}
	}
	for _, line := range lines {
		if status, text, _ := strings.Cut(line, " "); !strings.Contains("123", status) || text == "" {
			t.Errorf("it ends with %q", line)
		}
	}
}

func lastLines(text string) string { return text[max(0, len(text)-500):] }

// TestANodeThatStandsStill: the client waited for it in silence, and without an end. A node that
// sends nothing, and whose beat goes on, does not stand still.
func TestANodeThatStandsStill(t *testing.T) {
	const still = "the node of this machine (pid 1) has shown no sign of life for 1 s: it is stopped or hangs"
	all := conversation(10, Offset)
	torn := slices.Concat(all[:2], []said{{all[2].bytes[:20], nil}, {all[2].bytes[20:], nil}}, all[3:])
	for name, c := range map[string]struct {
		says    []said
		pause   int
		timeout string
		end     string
		warning string
	}{
		"before WELCOME": {all, 0, "1", "3 the node of this machine has not answered for 1 s", ""},
		"before SHARE": {
			all, 1, "1", "1 the run has ended", "rank 0 of 1 has waited 1 s: other ranks have not attached, the node " +
				"makes the memory, or the node (pid 1)",
		},
		"after SHARE":            {all, 2, "1", "3 " + still, ""},
		"after SHARE, no limit":  {all, 2, "0", "1 the run has ended", still},
		"in a message, no limit": {torn, 3, "0", "1 the run has ended", still},
		"a long slot":            {nil, 0, "1", "1 the run has ended", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.says == nil {
				n := begin(t, t.TempDir(), "train", c.timeout, "1")
				time.Sleep(2 * time.Second)
				n.End(wire.CodeEnded, "the run has ended")
				n.wantEnd(t, false, c.end+"\n")
				return
			}
			c.says = slices.Clone(c.says)
			c.says[1].files = []int{vector(t, Size(10)), vector(t, Size(10))}
			l := listen(t)
			cmd, out, errs := client(t, l.Addr().String(), "train", c.timeout, "1")
			do(t, cmd.Start())
			conn, err := l.AcceptUnix()
			do(t, err, speak(conn, c.says, c.pause), cmd.Wait())
			warnings := strings.ReplaceAll(errs.String(), "p2pdiloco: paused\n", "")
			if !strings.HasPrefix(out.String(), c.end) || !strings.Contains(warnings, c.warning) ||
				strings.Count(warnings, "\n") > 1 || (c.warning == "") != (warnings == "") {
				t.Errorf("%q, and the warnings\n%s", out, warnings)
			}
		})
	}
}
