package formation

import (
	"cmp"
	"errors"
	"time"
)

// missingPause is the time between two warnings that no peer was found.
const missingPause = 20 * time.Second

var errMissing = errors.New("some answer, and none of them knows a peer of the run")

// warnMissing logs that no peer of the run that is meant was found, or, with an error, that no
// bootstrap address answers.
func (f *Formation) warnMissing(err error) {
	switch {
	case f.cfg.ID != "":
		f.log.Warn("nobody of this run is found yet; still looking. If its peers have ended or moved, ask one for a "+
			"new ticket (p2pdiloco invite)", "run_id", f.cfg.ID, "err", cmp.Or(err, errMissing))
	case err != nil:
		f.log.Warn("still trying; founding is off until a bootstrap address answers (p2pdiloco start NAME founds at "+
			"once)", "err", err)
	}
}
