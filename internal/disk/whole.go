package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// abandoned is how long nobody has written to what a process was making that was killed.
const abandoned = time.Hour

// partSuffix ends the names of what is being made. Users keep their own files beside it, hidden
// ones with a date in the name among them: only this program gives such names.
const partSuffix = ".p2pdiloco-part"

// WriteWhole makes a file that is there whole and durable, or not at all, with the mode that new
// files of this user have. Without replace it fails with fs.ErrExist if the file exists. When ctx
// ends it stops, and leaves nothing behind. What killed processes have left of the same file goes.
func WriteWhole(ctx context.Context, path string, replace bool, write func(io.Writer) error) error {
	sweepOld(path)
	name := fmt.Sprintf(".%s.%d%s", filepath.Base(path), rand.Uint32(), partSuffix)
	// 0666, less the umask
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if err := errors.Join(write(&until{ctx, f}), ctx.Err()); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if replace {
		return Publish(OS, f, path)
	}
	return publish(OS, f, path, place)
}

// sweepOld removes what processes have left beside path that died while they made it. One that has
// written within the last hour may still be at it.
func sweepOld(path string) {
	dir := filepath.Dir(path)
	entries, _ := os.ReadDir(dir) // what stays does no harm
	for _, e := range entries {
		name, part := strings.CutSuffix(e.Name(), partSuffix)
		info, err := e.Info()
		if part && isTemp(name, filepath.Base(path)) && err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}
