package document

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/p2pdiloco/p2pdiloco"
	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/testutil"
)

func init() { testutil.OneCPU() }

// event is what a reader of event files finds in a record.
type event struct {
	time    float64
	step    uint64
	version string
	values  map[string]float32
}

// readBoard reads the one event file of a folder as TensorBoard does.
func readBoard(t *testing.T, folder string) (events []event) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "events.out.tfevents.*"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	check := func(of []byte, sum []byte) {
		crc := crc32.Checksum(of, crc32.MakeTable(crc32.Castagnoli))
		if want := (crc>>15 | crc<<17) + 0xa282ead8; binary.LittleEndian.Uint32(sum) != want {
			t.Fatal("a wrong checksum")
		}
	}
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		check(b[:8], b[8:12])
		message := b[12 : 12+n]
		check(message, b[12+n:16+n])
		b = b[16+n:]
		events = append(events, readEvent(t, message))
	}
	return events
}

// fields calls f with each field of a message.
func fields(t *testing.T, b []byte, f func(number protowire.Number, value []byte)) {
	t.Helper()
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal("no field")
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			t.Fatal("no value")
		}
		f(number, b[:n])
		b = b[n:]
	}
}

func readEvent(t *testing.T, message []byte) event {
	t.Helper()
	e := event{values: map[string]float32{}}
	inside := func(b []byte) []byte { v, _ := protowire.ConsumeBytes(b); return v }
	fields(t, message, func(number protowire.Number, b []byte) {
		switch number {
		case 1:
			v, _ := protowire.ConsumeFixed64(b)
			e.time = math.Float64frombits(v)
		case 2:
			e.step, _ = protowire.ConsumeVarint(b)
		case 3:
			e.version = string(inside(b))
		case 5:
			fields(t, inside(b), func(_ protowire.Number, b []byte) {
				var tag string
				var value uint32
				fields(t, inside(b), func(number protowire.Number, b []byte) {
					if number == 1 {
						tag = string(inside(b))
					} else {
						value, _ = protowire.ConsumeFixed32(b)
					}
				})
				e.values[tag] = math.Float32frombits(value)
			})
		}
	})
	return e
}

// Slots that are in a metrics file, and those that come, are in the event file under their numbers,
// each once, with what is known of them and nothing else.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "metrics.jsonl"), filepath.Join(dir, "board", "deep")
	synctest.Test(t, func(t *testing.T) {
		h := eventlog.NewHistory(disk.OS, file)
		add := func(slots ...uint64) {
			for _, slot := range slots {
				loss := 1 / float64(slot)
				m := p2pdiloco.SlotMetrics{Slot: slot, Time: time.Unix(int64(slot), 0), Loss: &loss, Members: 3}
				if err := h.Add(m); err != nil {
					t.Fatal(err)
				}
			}
		}
		add(1, 2)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- FollowMetrics(ctx, file, "tensorboard:"+folder) }()
		time.Sleep(2 * look)
		if n := len(readBoard(t, folder)); n != 3 {
			t.Errorf("%d events while it follows, want the version and two slots", n)
		}
		add(1, 3) // after a change of branch a slot may be there twice
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	events := readBoard(t, folder)
	if len(events) != 4 || events[0].version != "brain.Event:2" {
		t.Fatalf("%+v", events)
	}
	for i, e := range events[1:] {
		_, known := e.values["loss/held_out"]
		if e.step != uint64(i+1) || e.time != float64(i+1) || e.values["loss/training"] != float32(1/float64(i+1)) ||
			e.values["run/members"] != 3 || known {
			t.Errorf("%+v", e)
		}
	}
}

// A file gets the lines of a metrics file as they are, each once, also where a peer is started
// again. What is in the file stays.
func TestFollowToAFile(t *testing.T) {
	dir := t.TempDir()
	metrics, to := filepath.Join(dir, "metrics.jsonl"), filepath.Join(dir, "slots.jsonl")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const before = "of another run\n"
	write(to, before)
	ended, stop := context.WithCancel(t.Context())
	stop()
	lines := ""
	for _, more := range []string{"{\"slot\":1}\n{\"slot\":2}\n", "", "{\"slot\":1,\"members\":3}\n"} {
		lines += more
		write(metrics, lines)
		if err := FollowMetrics(ended, metrics, "jsonl:"+to); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(to); err != nil || string(b) != before+lines {
			t.Errorf("the file has %q, want %q (%v)", b, before+lines, err)
		}
	}
}

// A folder that cannot be made, or a file, is said.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"tensorboard:", "jsonl:"} {
		err := FollowMetrics(t.Context(), file, to+file+"/board")
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", to, err)
		}
	}
}
