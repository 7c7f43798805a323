package formation

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/slot"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Preset is the name of the run's preset: that of its peers, else the given one, else the default.
func (f *Formation) Preset() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.preset
}

// AwaitPreset waits until a peer of the run announces its preset, at most for the discovery window.
// It returns at once if the preset is known. The preset is unknown if this peer has the spec from
// an earlier start in which it did not become a member.
func (f *Formation) AwaitPreset(ctx context.Context) error {
	f.mu.Lock()
	awaited := f.mu.awaited
	f.mu.Unlock()
	if awaited == nil {
		return nil
	}
	window := time.NewTimer(f.cfg.Discovery)
	defer window.Stop()
	select {
	case <-awaited:
	case <-window.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.awaited = nil
	return nil
}

// takePreset takes the preset of the peer that gave the spec, unless one was given here. If that
// peer announced none, AwaitPreset waits for another peer to do so. mu is held.
func (f *Formation) takePreset(theirs string) {
	if f.cfg.Preset != "" {
		return
	}
	if slices.Contains(f.cfg.Presets, theirs) {
		f.mu.preset = theirs
	} else {
		f.mu.awaited = make(chan struct{})
	}
}

// comparePreset takes the preset that a peer of the run announces, or compares it with the known
// one.
func (f *Formation) comparePreset(p slot.PeerID, h p2p.Hello) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !bytes.Equal(h.Spec, f.mu.encoded) { // the peer is in another run
		return
	}
	if slices.Contains(f.cfg.Presets, h.Timing) && f.mu.awaited != nil {
		f.takePreset(h.Timing)
		close(f.mu.awaited)
		f.mu.awaited = nil
	}
	f.comparePresetLocked(p, h.Timing)
}

// comparePresetLocked warns, once, of a peer of the run that has another preset; mu is held.
func (f *Formation) comparePresetLocked(p slot.PeerID, theirs string) {
	if !slices.Contains(f.cfg.Presets, theirs) || theirs == f.mu.preset || f.mu.warned {
		return
	}
	f.mu.warned = true
	f.log.Warn("a peer of this run has another preset: the two will take each other for lost. Give all peers the "+
		"same (--preset)",
		"peer", p, "here", f.mu.preset, "there", theirs)
}
