package p2pdiloco

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Members with different presets take each other for lost: a peer of wan says that it is alive once in 5 s, and one of lan waits 1.5 s for
// that. So who was given none takes the run's, which its peers tell beside the spec, and a data directory remembers it: once this peer is a member,
// for before that it may be a stranger's word, and one that is wrong is gone with the next start.

const (
	presetFile = "preset"
	maxPreset  = 32 // bytes of that file
)

// preset is the name of the one to begin with.
func (c Config) preset() string { return cmp.Or(c.Preset, PresetWAN) }

// recallPreset takes what the data directory remembers, where none was given.
func (n *Node) recallPreset() error {
	if n.cfg.Preset != "" {
		return nil
	}
	b, err := disk.Read(n.dir.fs, n.dir.path(presetFile), maxPreset)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	name := strings.TrimSpace(string(b))
	p, ok := presets[name]
	if !ok {
		return fmt.Errorf("%s is damaged: it names no preset: remove it, or give the run's preset (%s or %s)", n.dir.path(presetFile), PresetLAN, PresetWAN)
	}
	n.cfg.Preset, n.timing = name, p
	return nil
}

// adoptPreset goes on with the preset of the run's peers.
func (n *Node) adoptPreset(ctx context.Context) error {
	if err := n.meeting.awaitPreset(ctx); err != nil {
		return err
	}
	n.timing = presets[n.meeting.preset()]
	return nil
}

// rememberPreset has the data directory remember it.
func (n *Node) rememberPreset() {
	name := n.meeting.preset()
	old, err := disk.Read(n.dir.fs, n.dir.path(presetFile), maxPreset)
	if err == nil && strings.TrimSpace(string(old)) == name {
		return
	}
	if err := disk.Replace(n.dir.fs, n.dir.path(presetFile), []byte(name+"\n")); err != nil {
		n.log.Warn("the run's preset is not remembered", "err", err)
	}
}

func (m *meeting) preset() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.preset
}

// awaitPreset waits for a peer of the run to tell it, if there is one, where this one has the spec without: from before, when it was no member yet.
func (m *meeting) awaitPreset(ctx context.Context) error {
	m.mu.Lock()
	untold := m.mu.untold
	m.mu.Unlock()
	if untold == nil {
		return nil
	}
	window := time.NewTimer(m.timing.discovery)
	defer window.Stop()
	select {
	case <-untold:
	case <-window.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.untold = nil
	return nil
}

// takePreset takes that of the peer whose spec is adopted, where none was given; mu is held. Where there is none either, others are to tell.
func (m *meeting) takePreset(theirs string) {
	if m.cfg.Preset != "" {
		return
	}
	if _, ok := presets[theirs]; ok {
		m.mu.preset = theirs
	} else {
		m.mu.untold = make(chan struct{})
	}
}

func (m *meeting) comparePreset(p PeerID, h p2p.Hello) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !bytes.Equal(h.Spec, m.mu.encoded) { // it is of another run
		return
	}
	if _, ok := presets[h.Timing]; ok && m.mu.untold != nil && !m.mu.told {
		m.takePreset(h.Timing)
		m.mu.told = true
		close(m.mu.untold)
	}
	m.comparePresetLocked(p, h.Timing)
}

// comparePresetLocked warns, once, of a peer of the run that has another preset; mu is held.
func (m *meeting) comparePresetLocked(p PeerID, theirs string) {
	if _, ok := presets[theirs]; !ok || theirs == m.mu.preset || m.mu.warned {
		return
	}
	m.mu.warned = true
	m.log.Warn("a peer of this run has another preset: the two will take each other for lost. Give all peers the same (--preset)",
		"peer", p, "here", m.mu.preset, "there", theirs)
}
