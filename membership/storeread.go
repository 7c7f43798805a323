package membership

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
)

// ReadStore gives what the ledger's log in dir holds, without opening the store: it changes nothing, and a node may be running on
// it. Of a write that is under way nothing is seen. Errors are those of OpenStore, or os.ErrNotExist where there is no log.
func ReadStore(dir string, run slot.Root) (Saved, error) {
	s := &FileStore{path: filepath.Join(dir, logName)}
	file, err := os.Open(s.path)
	if err != nil {
		return Saved{}, fmt.Errorf("ledger log: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Saved{}, err
	}
	r := bufio.NewReaderSize(io.LimitReader(file, info.Size()), 1<<20)
	if err := s.loadHead(r, run); err != nil {
		return Saved{}, err
	}
	for f := (&frameReader{r: r, at: int64(headSize), size: info.Size(), sum: s.mu.sum}); ; {
		switch err := s.loadFrame(f); {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, errTorn):
			return s.mu.state.saved(), nil
		default:
			return Saved{}, s.damaged(f.at, err)
		}
	}
}
