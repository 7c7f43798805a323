package chaos

import (
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco"
)

// othersEnded says whether all but the victims of a fault of kind End have finished the run.
func (r *runner) othersEnded(f *fault) bool {
	for _, p := range r.nodes {
		if p.hurt != f && !p.gone && p.status.Phase != p2pdiloco.PhaseEnded {
			return false
		}
	}
	return true
}

// endedAgain waits until all have finished the run, whoever was away at its end too. After a fault
// of kind End it starts them all once more: then they must finish again, with the same model.
func (r *runner) endedAgain(f *fault) error {
	for _, p := range r.nodes {
		if p.gone {
			continue
		}
		if most := r.cfg.stretch(returnWithin); time.Since(f.lifted) > most {
			return fmt.Errorf("%w: peer %d has not finished %v after the end of: %s", errHang, p.n, most, f)
		}
		return nil
	}
	took := time.Since(f.lifted).Seconds()
	if f.again {
		f.stage = over
		r.screen.Note(fmt.Sprintf("slot %d: all ended again after %.1f s", r.ledger.slot, took))
		return nil
	}
	if f.Return = &took; f.Kind == Apart {
		f.stage = over
		r.screen.Note(fmt.Sprintf("slot %d: all ended after %.1f s", r.ledger.slot, took))
		return nil
	}
	r.screen.Note(fmt.Sprintf("slot %d: all ended after %.1f s; all start once more", r.ledger.slot, took))
	for _, p := range f.victims {
		p.hurt = nil
	}
	if err := r.startAll(r.nodes); err != nil {
		return err
	}
	f.again, f.lifted = true, time.Now()
	return nil
}
