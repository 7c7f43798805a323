package plugin

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// These are the requests and replies between this process and its host, as in host.h. Both sides
// are of one build and on one machine, so structs have native byte order. But the library shares
// the host's process and may write anything into the pipe.

type op uint32

// These are the values of enum op of host.h.
const (
	opOpen op = iota + 1
	opEntry
	opCreate
	opLayout
	opShare
	opInit
	opLoad
	opRun
	opExport
	opEvaluate
	opSave
	opRestore
	opClose
	opCancel
)

// Codes of a reply.
const (
	codeOK        = 0
	codeCancelled = 2
	codeRefused   = 100
	codeProgress  = 101
)

// Optional abilities of a library.
const (
	canExportGradient = 1 << iota
	canEvaluate
	canSave
)

const (
	replyMagic = 0x70325470
	replyBytes = 16
	// bounds a reply: a layout of 65536 tensors with the longest names takes 22 MiB
	maxPayload = 64 << 20
)

var native = binary.NativeEndian

// requestArgs is how many numbers a request carries, as in host.h.
const requestArgs = 7

type request struct {
	op      op
	number  uint32
	arg     [requestArgs]uint64
	payload string
}

func (r request) append(b []byte) []byte {
	b = native.AppendUint32(b, uint32(r.op))
	b = native.AppendUint32(b, r.number)
	for _, a := range r.arg {
		b = native.AppendUint64(b, a)
	}
	b = native.AppendUint64(b, uint64(len(r.payload)))
	return append(b, r.payload...)
}

type reply struct {
	number  uint32
	code    int32
	payload []byte
}

// readReply reads one reply. An error other than of reading means that other code has written into
// the pipe.
func readReply(r io.Reader) (reply, error) {
	var head [replyBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return reply{}, err
	}
	magic, bytes := native.Uint32(head[:]), native.Uint32(head[12:])
	if magic != replyMagic || bytes > maxPayload {
		return reply{}, errGarbled
	}
	got := reply{number: native.Uint32(head[4:]), code: int32(native.Uint32(head[8:]))}
	got.payload = make([]byte, bytes)
	_, err := io.ReadFull(r, got.payload)
	return got, err
}

var errGarbled = fmt.Errorf("it wrote into the pipe to the peer (descriptor 4)")

// parseStats reads and checks what run returned for a task of so many steps.
func parseStats(b []byte, asked int) (s trainer.Stats, err error) {
	const fields = 7
	if len(b) != 8*fields {
		return s, fmt.Errorf("statistics of %d bytes", len(b))
	}
	var v [fields]uint64
	for i := range v {
		v[i] = native.Uint64(b[8*i:])
	}
	loss, seconds, norm := math.Float64frombits(v[4]), math.Float64frombits(v[5]), math.Float64frombits(v[6])
	switch {
	case v[1] == 0 || v[1] > uint64(asked):
		return s, fmt.Errorf("it says that it did %d steps of %d: stats->steps must be those done", v[1], asked)
	case v[3] == 0:
		return s, fmt.Errorf("it says that it processed no tokens: stats->tokens is the contribution's weight, and " +
			"must be above 0 (samples will do)")
	case math.IsNaN(loss) || math.IsInf(loss, 0):
		return s, fmt.Errorf("the training loss is %v: training diverged, take a lower learning rate", loss)
	case !(seconds >= 0 && seconds < maxSeconds):
		return s, fmt.Errorf("it says that it took %v seconds: stats->seconds must be the time spent in the steps",
			seconds)
	}
	if !(norm >= 0) || math.IsInf(norm, 0) {
		norm = 0 // unknown: a step that loss scaling skipped has no finite norm
	}
	return trainer.Stats{
		Steps: int(v[1]), Samples: v[2], Tokens: v[3], Loss: loss, GradNorm: norm,
		Elapsed: time.Duration(seconds * float64(time.Second)),
	}, nil
}

const maxSeconds = 100 * 365 * 24 * 3600
