package document

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/p2pdiloco/p2pdiloco"
)

// tensorBoard writes slots to a file of events, as tensorboard --logdir reads it: records
// (TFRecord) of Event messages (tensorflow/core/util/event.proto), each with a scalar a value.
//
//	record  length u64 | masked CRC-32C of it u32 | message | masked CRC-32C of it u32, little-endian
type tensorBoard struct {
	file   *os.File
	newest uint64 // slot that add has written
}

// newTensorBoard makes an event file in a folder, which it makes if needed.
func newTensorBoard(folder string, now time.Time) (*tensorBoard, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "peer"
	}
	name := fmt.Sprintf("events.out.tfevents.%d.%s.%d", now.Unix(), host, os.Getpid())
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	t := &tensorBoard{file: f}
	if err := writeRecord(f, appendVersion(nil, now)); err != nil {
		_ = f.Close()
		return nil, err
	}
	return t, nil
}

// Close closes the file.
func (t *tensorBoard) Close() error { return t.file.Close() }

// add writes the slot of a line. A file that was thinned is read anew; the last slot's loss may
// come later.
func (t *tensorBoard) add(line []byte) error {
	var m p2pdiloco.SlotMetrics
	if json.Unmarshal(line, &m) != nil || m.Slot < t.newest {
		return nil
	}
	t.newest = m.Slot
	b := appendTime(nil, m.Time)
	b = protowire.AppendVarint(protowire.AppendTag(b, fieldStep, protowire.VarintType), m.Slot)
	var summary []byte
	for _, s := range scalars {
		if v := value(m, s.of); !math.IsNaN(v) {
			summary = protowire.AppendBytes(protowire.AppendTag(summary, fieldValue, protowire.BytesType),
				appendScalar(nil, s.tag, v))
		}
	}
	b = protowire.AppendBytes(protowire.AppendTag(b, fieldSummary, protowire.BytesType), summary)
	return writeRecord(t.file, b)
}

// The numbers of the fields that are written: of Event, of Summary, and of Summary.Value.
const (
	fieldWallTime    protowire.Number = 1
	fieldStep        protowire.Number = 2
	fieldFileVersion protowire.Number = 3
	fieldSummary     protowire.Number = 5

	fieldValue protowire.Number = 1

	fieldTag         protowire.Number = 1
	fieldSimpleValue protowire.Number = 2
)

// scalars are the fields of a slot that are written, each under the name that TensorBoard shows.
var scalars = []struct{ tag, of string }{
	{"loss/training", "loss"},
	{"loss/held_out", "held_out_loss"},
	{"tokens/of_the_run", "run_tokens"},
	{"tokens/per_second", "tokens_per_second"},
	{"run/members", "members"},
	{"run/contributors", "contributors"},
	{"time/slot_seconds", "seconds"},
	{"time/stalled_share", "stalled_share"},
	{"time/step_seconds", "step_seconds"},
	{"bytes/sent", "bytes_sent"},
	{"bytes/received", "bytes_received"},
	{"gradient/norm", "norm"},
	{"gradient/own_norm", "own_norm"},
	{"gradient/cosine", "cosine"},
}

func appendVersion(b []byte, now time.Time) []byte {
	b = protowire.AppendTag(appendTime(b, now), fieldFileVersion, protowire.BytesType)
	return protowire.AppendString(b, "brain.Event:2")
}

func appendTime(b []byte, at time.Time) []byte {
	b = protowire.AppendTag(b, fieldWallTime, protowire.Fixed64Type)
	return protowire.AppendFixed64(b, math.Float64bits(float64(at.UnixNano())/1e9))
}

func appendScalar(b []byte, tag string, v float64) []byte {
	b = protowire.AppendString(protowire.AppendTag(b, fieldTag, protowire.BytesType), tag)
	b = protowire.AppendTag(b, fieldSimpleValue, protowire.Fixed32Type)
	return protowire.AppendFixed32(b, math.Float32bits(float32(v)))
}

// writeRecord writes a record at once: who follows the file finds it whole, or not yet.
func writeRecord(w io.Writer, message []byte) error {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(message)))
	b = binary.LittleEndian.AppendUint32(b, masked(b))
	b = append(b, message...)
	_, err := w.Write(binary.LittleEndian.AppendUint32(b, masked(message)))
	return err
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is the CRC-32C of b as TFRecord has it.
func masked(b []byte) uint32 {
	sum := crc32.Checksum(b, castagnoli)
	return (sum>>15 | sum<<17) + 0xa282ead8
}
