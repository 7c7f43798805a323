package formation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
	"github.com/p2pdiloco/p2pdiloco/spec"
)

// Anybody may found a second run of a name. So a peer that knows no more than the name looks around
// before it takes part in the run that answers first: a while, and until each peer that was found
// had its chance to answer. That a run's member was given as a bootstrap address settles the
// choice.

// maxSighted is how many runs are remembered: anybody may make up more, with specs of megabytes.
const maxSighted = 8

// Sighted is a run of the name that is looked for, as one peer has told of it.
type Sighted struct {
	ID    slot.Root
	Spec  spec.Spec
	From  slot.PeerID
	Hello p2p.Hello // the one that tells of the most members
	first time.Time // when it came into sight
}

// Of two founders that did not see each other one founds in vain. Others take neither at once, so
// that both are in sight, and all take the same one. A founder that has stayed alone gives its run
// up, as long as little is lost with it: after slot.Early it does not, nor does a member ever.

// choiceWait is the number of pauses between hellos for which a run that has not begun, and has
// its founder alone, is in sight before it is taken.
const choiceWait = 3

// alone says whether the run's founder is its only member, and may give it up.
func (r Sighted) alone() bool { return r.Hello.Members == 1 && r.Hello.Slot < slot.Early }

func (r Sighted) founder() slot.PeerID {
	if len(r.Spec.Founders) > 0 {
		return r.Spec.Founders[0]
	}
	return r.From
}

// compare sorts runs with members before those whose founders are alone.
func (r Sighted) compare(other Sighted) int {
	switch {
	case r.alone() == other.alone():
		return cmp.Compare(r.founder(), other.founder())
	case r.alone():
		return 1
	}
	return -1
}

// Several is the error where nothing says which of the runs in sight is meant.
type Several []Sighted

// Error lists the runs.
func (s Several) Error() string {
	text, name := "", s[0].Spec.Name
	for _, run := range s {
		text += "\n  " + run.String()
	}
	return fmt.Sprintf("%d runs are called %q here, and this peer joins none without knowing which one you mean:%s\n"+
		"Take a ticket of the right one (p2pdiloco invite, on a machine that is in it), or name it with its ID: "+
		"--run %s@%.16s", len(s), name, text, name, s[0].ID)
}

// String is what one of its peers says of a run.
func (r Sighted) String() string {
	founder, how := "any of its first peers", "its size is not told"
	if len(r.Spec.Founders) > 0 {
		founder = r.Spec.Founders[0].String()
	}
	if r.Hello.Members > 0 {
		how = fmt.Sprintf("slot %d, members: %d", r.Hello.Slot, r.Hello.Members)
	}
	return fmt.Sprintf("%s@%.16s  founded by %s; %s (so peer %s says)", r.Spec.Name, r.ID, founder, how, r.From.Short())
}

// sight remembers a run, or settles its spec if it is chosen already; mu is held.
func (f *Formation) sight(run Sighted, chosen bool) {
	if chosen {
		f.log.Info("adopted the run spec", "from", run.From, "run_id", run.ID)
		f.takePreset(run.Hello.Timing)
		f.settle(run.Spec)
		f.comparePresetLocked(run.From, run.Hello.Timing)
		return
	}
	old, seen := f.mu.sighted[run.ID]
	// 0 members, of a peer that does not tell, are the most
	more := cmp.Or(cmp.Compare(run.Hello.Members-1, old.Hello.Members-1), cmp.Compare(run.Hello.Slot, old.Hello.Slot))
	if run.first = time.Now(); seen {
		run.first = old.first
	}
	if seen && more > 0 || !seen && len(f.mu.sighted) < maxSighted {
		f.mu.sighted[run.ID] = run
	}
}

// choose adopts the one run in sight, of several the one that has more members than its founder, or
// where all founders are alone that of the lowest; mu is held.
func (f *Formation) choose() error {
	runs := slices.SortedFunc(maps.Values(f.mu.sighted), Sighted.compare)
	if len(runs) == 0 {
		return nil
	}
	best := runs[0]
	switch {
	case len(runs) > 1 && !runs[1].alone():
		return Several(runs)
	case !best.alone() || best.Hello.Slot > 0 || time.Since(best.first) >= choiceWait*f.cfg.Hello:
		f.sight(best, true)
	}
	return nil
}

// alone says whether this peer may give its run up: only the founder ever was a member, this peer
// or the one whose run it has chosen: that one may have given it up before this peer was a member.
// A person who has it found a run wants that one. mu is held.
func (f *Formation) alone() bool {
	if f.cfg.Found || f.cfg.GiveUp == nil || f.mu.progress == nil {
		return false
	}
	_, _, alone, in := f.mu.progress()
	return alone && (in || f.mu.sighted[f.mu.spec.RunID()].alone())
}

// weigh has this peer give its run up for another one in sight, if nobody has joined its own: for
// one that is not given up, or whose founder has a lower ID; mu is held.
func (f *Formation) weigh(id slot.Root) (gives bool) {
	run, seen := f.mu.sighted[id]
	gives = seen && f.alone() && id != f.mu.spec.RunID() && run.Spec.Access == f.mu.spec.Access &&
		(!run.alone() || run.founder() < cmp.Or(f.mu.sighted[f.mu.spec.RunID()].founder(), f.cfg.Network.ID()))
	if gives {
		f.cfg.GiveUp(run)
		f.cfg.GiveUp = nil // once
	}
	return gives
}

// askStart says hello to the peers whose addresses were given, before others are chosen. One that
// is no peer of a run says so at once.
func (f *Formation) askStart(ctx context.Context) {
	var asked sync.WaitGroup
	for _, p := range f.cfg.Start {
		asked.Go(func() { _ = f.exchange(ctx, p, firstTimeout) })
	}
	asked.Wait()
}
