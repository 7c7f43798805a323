package p2pdiloco

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/p2pdiloco/p2pdiloco/internal/disk"
	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// Members with different presets take each other for lost: a peer of wan says that it is alive once in 5 s, and one of lan waits 1.5 s for
// that. So who was given none takes the run's, which its peers tell beside the spec, and a data directory remembers it.

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

// adoptPreset goes on with the preset of the run's peers, and remembers it.
func (n *Node) adoptPreset() error {
	name := n.meeting.preset()
	n.timing = presets[name]
	old, err := disk.Read(n.dir.fs, n.dir.path(presetFile), maxPreset)
	if err == nil && strings.TrimSpace(string(old)) == name {
		return nil
	}
	if err := disk.Replace(n.dir.fs, n.dir.path(presetFile), []byte(name+"\n")); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return nil
}

func (m *meeting) preset() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.preset
}

// takePreset takes that of the peer whose spec is adopted, where none was given; mu is held.
func (m *meeting) takePreset(theirs string) {
	if _, ok := presets[theirs]; ok && m.cfg.Preset == "" {
		m.mu.preset = theirs
	}
}

func (m *meeting) comparePreset(p PeerID, h p2p.Hello) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if bytes.Equal(h.Spec, m.mu.encoded) { // else it is of another run
		m.comparePresetLocked(p, h.Timing)
	}
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
