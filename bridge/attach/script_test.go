package attach

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/p2pdiloco/p2pdiloco/bridge/attach/wire"
	"github.com/p2pdiloco/p2pdiloco/trainer"
)

// TestScripts runs the scripts in testdata/box, one for each thing that can happen to a box. A line
// is what comes in; below ---- is what the box wants done for it:
//
//	hello conn=1 rank=0 world=2 set=a       what a rank sends: also layout, done, offer, at, ping, leave, fill
//	closed conn=1 · garbled conn=1          what happens to its connection
//	memory · no-memory                      what was asked for is there, or cannot be had
//	ask LOAD · ask TRAIN steps=100 · give-up · dismiss · end · know    what the node does
//	tick 10s steps=(3,4)                    time goes by; steps are the ranks' words
//	state
//
// The model is w[8 3] and b[5]. pieces=all is all of it, pieces=1/2 its second half as rows, and
// pieces=flat:1/2 the same as flat ranges; pieces=box:TENSOR:OFFSETS:EXTENTS is one box. The memory
// is there at once, but for layout … slow.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/box", func(t *testing.T, path string) {
		s := &script{box: NewBox(BoxConfig{
			Run: "my-run", DataDir: "/data", PID: 71, Timeout: 10 * time.Minute, Looks: time.Second,
		})}
		datadriven.RunTest(t, path, s.run)
	})
}

type script struct {
	box *Box
	now time.Time
	id  uint64 // of the newest request
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	number := func(key string, otherwise uint64) (n uint64) {
		if n = otherwise; d.HasArg(key) {
			d.ScanArgs(t, key, &n)
		}
		return n
	}
	text := func(key, otherwise string) (s string) {
		if s = otherwise; d.HasArg(key) {
			d.ScanArgs(t, key, &s)
		}
		return s
	}
	conn := Conn(number("conn", 0))
	receive := func(id uint64, m wire.Message) string {
		return show(s.box.Receive(s.now, conn, id, m))
	}
	switch d.Cmd {
	case "hello":
		return receive(1, &wire.Hello{
			Version: number("major", 1) << 16, Rank: number("rank", 0), World: number("world", 1),
			Set: text("set", "a"), Run: text("run", ""), Saves: number("saves", 0), State: number("state", 0),
		})
	case "layout":
		effects := s.box.Receive(s.now, conn, 2, layout(t, text("pieces", "all"), text("names", "w,b")))
		if n := len(effects); n > 0 && !d.HasArg("slow") {
			if _, wants := effects[n-1].(Share); wants {
				effects = append(effects, s.box.Shared(s.now)...)
			}
		}
		return show(effects)
	case "memory":
		return show(s.box.Shared(s.now))
	case "done":
		return receive(number("id", s.id), &wire.Done{Status: number("status", 0)})
	case "offer":
		return receive(number("id", s.id), &wire.Offer{Steps: number("steps", 0), Tokens: 1})
	case "at":
		return receive(3, &wire.At{Train: number("train", s.id), Steps: number("steps", 0)})
	case "ping":
		return receive(4, &wire.Ping{})
	case "leave":
		return receive(5, &wire.Leave{Reason: "the loop has ended", Run: number("run", 0)})
	case "fill":
		return receive(6, &wire.Fill{})
	case "closed":
		return show(s.box.Closed(conn, "its process has ended"))
	case "garbled":
		return show(s.box.Garbled(conn, "a header of 3 bytes"))
	case "ask":
		return s.ask(d, number)
	case "give-up":
		s.box.GiveUp(s.id)
		return ""
	case "dismiss":
		return show(s.box.Dismiss(*fault(wire.CodeNotFinite, "element 13 of \"b\" is NaN")))
	case "no-memory":
		return show(s.box.Unshared(*fault(wire.CodeMemory, "too little memory")))
	case "end":
		return show(s.box.End(*fault(wire.CodeEnded, "the run has ended")))
	case "know":
		return show(s.box.Know(wire.Info{Mode: "sync"}))
	case "tick":
		passed, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(passed)
		var steps []uint64
		for _, arg := range d.CmdArgs[1:] {
			for _, v := range arg.Vals {
				n, _ := strconv.ParseUint(v, 10, 64)
				steps = append(steps, n)
			}
		}
		return show(s.box.Tick(s.now, steps))
	case "state":
		return s.box.State() + "\n"
	}
	t.Fatalf("there is no command %q", d.Cmd)
	return ""
}

func (s *script) ask(d *datadriven.TestData, number func(string, uint64) uint64) string {
	var m wire.Message
	switch kind := d.CmdArgs[0].Key; kind {
	case "LOAD":
		m = &wire.Load{End: 29}
	case "FILL":
		m = &wire.Fill{}
	case "TRAIN":
		m = &wire.Train{Slot: 1, Steps: number("steps", 100)}
	}
	id, effects, ok := s.box.Ask(s.now, number("epoch", s.box.epoch), m)
	if !ok {
		return "nobody\n"
	}
	s.id = id
	return show(effects)
}

// layout is what a rank holds of the model.
func layout(t *testing.T, pieces, names string) *wire.Layout {
	m := new(wire.Layout)
	shapes := [][]uint64{{8, 3}, {5}}
	for i, name := range strings.Split(names, ",") {
		global := trainer.Tensor{Name: name, Shape: shapes[i]}
		m.Tensors = append(m.Tensors, wire.Tensor{Tensor: global, DType: wire.F32})
	}
	var rank, world uint64 = 0, 1
	kind, rest, _ := strings.Cut(pieces, ":")
	if kind == "box" {
		f := strings.Split(rest, ":")
		tensor, _ := strconv.ParseUint(f[0], 10, 64)
		return &wire.Layout{Tensors: m.Tensors, Pieces: []wire.Piece{{
			Tensor: tensor, Offsets: numbers(f[1]), Extents: numbers(f[2]),
		}}}
	}
	if kind != "flat" {
		rest = pieces
	}
	if rest != "all" {
		if _, err := fmt.Sscanf(rest, "%d/%d", &rank, &world); err != nil {
			t.Fatal(err)
		}
	}
	for i, shape := range shapes {
		whole := trainer.Tensor{Shape: shape}
		n, form := shape[0], wire.Piece{Offsets: make([]uint64, len(shape)), Extents: append([]uint64(nil), shape...)}
		if kind == "flat" {
			n, form = whole.Elements(), wire.Piece{Flat: true, Offsets: []uint64{0}, Extents: []uint64{0}}
		}
		form.Tensor = uint64(i)
		form.Offsets[0] = n * rank / world
		form.Extents[0] = n*(rank+1)/world - form.Offsets[0]
		m.Pieces = append(m.Pieces, form)
	}
	return m
}

func numbers(text string) (all []uint64) {
	for s := range strings.SplitSeq(text, ",") {
		n, _ := strconv.ParseUint(s, 10, 64)
		all = append(all, n)
	}
	return all
}

// show prints effects, one a line.
func show(effects []Effect) string {
	var b strings.Builder
	for _, e := range effects {
		switch e := e.(type) {
		case Send:
			fmt.Fprintf(&b, "to %d: %s\n", e.Conn, message(e.ID, e.Message))
		case Close:
			fmt.Fprintf(&b, "close %d\n", e.Conn)
		case Share:
			fmt.Fprintf(&b, "share epoch %d, %d elements", e.Epoch, e.Elements)
			if e.Saves || e.State > 0 {
				fmt.Fprintf(&b, ", all save: %t, state of slot %d", e.Saves, e.State)
			}
			b.WriteString("\n")
			for _, s := range e.Shares {
				fmt.Fprintf(&b, "  to %d: %s\n", s.Conn, message(s.ID, s.Message))
			}
		case Unwanted:
			b.WriteString("the memory is not wanted\n")
		case Answered:
			fmt.Fprintf(&b, "answered %d by %d ranks\n", e.ID, len(e.Answers))
		case Lost:
			fmt.Fprintf(&b, "lost: %s\n", e.Fault.Text)
		case Leave:
			fmt.Fprintf(&b, "leave the run: %s\n", e.Reason)
		}
	}
	return b.String()
}

// message prints the fields that are not 0.
func message(id uint64, m wire.Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v id=%d", wire.TypeOf(m), id)
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			fmt.Fprintf(&b, " %s=%v", v.Type().Field(i).Name, v.Field(i).Interface())
		}
	}
	return b.String()
}
