package limits

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/p2pdiloco/p2pdiloco/internal/wire"
)

// When large messages take all the memory there is for them, small ones still get through.
func TestLargeMessagesLeaveRoomForSmallOnes(t *testing.T) {
	const memoryForAll = 64 << 20
	memory := NewBudget(memoryForAll)
	const large = 4 << 20
	var back []func()
	for {
		giveBack, err := memory.Lend(large)
		if err != nil {
			break
		}
		back = append(back, giveBack)
	}
	if len(back) < memoryForAll/large || len(back) > memoryForAll/(large-smallMessage) {
		t.Errorf("%d large ones fit", len(back))
	}
	if _, err := memory.Lend(smallMessage); err != nil {
		t.Errorf("a small one: %v", err)
	}
	back[0]()
	if _, err := memory.Lend(large); err != nil {
		t.Errorf("after one was given back: %v", err)
	}
}

func TestReadMessage(t *testing.T) {
	for _, n := range []int{0, 1, 4095, 4096, 4097, 100_000, 1 << 20} {
		var b bytes.Buffer
		want := bytes.Repeat([]byte{7}, n)
		if err := wire.WriteMessage(&b, want); err != nil {
			t.Fatal(err)
		}
		whole := b.Bytes()
		memory := NewBudget(1 << 20)
		got, giveBack, err := ReadMessage(bytes.NewReader(whole), 1<<20, memory)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: got %d, %v", n, len(got), err)
		}
		giveBack()
		if _, _, err := ReadMessage(bytes.NewReader(whole[:len(whole)-1]), 1<<20, memory); n > 0 &&
			!errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes, the last one missing: %v", n, err)
		}
		if _, _, err := ReadMessage(bytes.NewReader(whole), n-1, memory); n > 0 && !errors.Is(err, wire.ErrTooLarge) {
			t.Errorf("%d bytes where fewer are allowed: %v", n, err)
		}
		if memory.left.Load() != 1<<20 {
			t.Errorf("%d bytes: %d of the budget left", n, memory.left.Load())
		}
	}
}
