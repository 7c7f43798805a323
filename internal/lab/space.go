package lab

import "os/exec"

// A Space is a network namespace, by the name that `ip netns` knows it by.
type Space string

// Space is node i's namespace. The node must exist.
func (l *Lab) Space(i int) Space { return Space(l.nodes[i].name) }

// Place makes cmd, which has not been started, run in the namespace, as Lab.Place does.
func (s Space) Place(cmd *exec.Cmd) error { return placeIn(string(s), cmd) }

// Do calls f in the namespace, as Lab.Do does.
func (s Space) Do(f func() error) error { return doIn(string(s), f) }

// Remove removes the namespace. Processes in it must have ended.
func (s Space) Remove() error { return removeNamespace(string(s)) }
