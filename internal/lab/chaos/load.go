package chaos

import (
	"errors"
	"os/exec"
)

// busyLoops is how many processes take the processors in a fault of kind load.
const busyLoops = 10

// busyLoop ends by itself, in a second or so, once the process that has started it is gone.
const busyLoop = `while kill -0 $PPID 2>/dev/null; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done`

// burn starts processes that do nothing but take time on all processors.
func (f *fault) burn() (err error) {
	for range busyLoops {
		cmd := exec.Command("sh", "-c", busyLoop)
		if failed := cmd.Start(); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		f.busy = append(f.busy, cmd)
	}
	return err
}

// calm ends them.
func (f *fault) calm() {
	for _, cmd := range f.busy {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // it was killed
	}
	f.busy = nil
}
