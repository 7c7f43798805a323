package track

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/eventlog"
	"github.com/p2pdiloco/p2pdiloco/internal/node/report"
)

// look is how often a metrics file is looked at.
const look = time.Second

// Follow writes the slots of a metrics file, those that are there and those that come, to an event
// file in a folder, until ctx ends. A slot that it cannot write ends it.
func Follow(ctx context.Context, metrics, folder string) (err error) {
	board, err := NewTensorBoard(folder, time.Now())
	if err != nil {
		return fmt.Errorf("event file of TensorBoard: %w", err)
	}
	lines := eventlog.Follow(metrics)
	defer func() { err = errors.Join(err, lines.Close(), board.Close()) }()
	var newest uint64
	add := func(line []byte) {
		var m report.SlotMetrics
		// a file that was thinned is read anew; the last slot's loss may come later
		if err == nil && json.Unmarshal(line, &m) == nil && m.Slot >= newest {
			newest, err = m.Slot, board.Add(m)
		}
	}
	for over := false; !over && err == nil; {
		select {
		case <-time.After(look):
		case <-ctx.Done():
			over = true // the last slots are written, too
		}
		err = errors.Join(lines.Next(add), err)
	}
	return err
}
