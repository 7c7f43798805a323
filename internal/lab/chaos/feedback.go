package chaos

import (
	"fmt"
	"os"
	"strings"
)

// CheckFeedback is the name of the check of error feedback: what a lossy codec lost of a peer's
// contributions is not forgotten at a restart.
const CheckFeedback = "error feedback goes on after a restart"

// What a peer's log says when it starts again and takes up what it owes, or cannot (package
// replica).
const (
	feedbackKept = "error feedback goes on where it was"
	feedbackLost = "error feedback begins at zero"
)

// checkFeedback looks at the logs of peers that were started again. One that has left in order goes
// on with what it owed, unless it had to fetch the state. After a kill what it owed may be older
// than its newest checkpoint; then it is given up.
func (r *runner) checkFeedback() Check {
	if r.cfg.Settings().Codec == DefaultCodec {
		return Check{CheckFeedback, true, "codec " + DefaultCodec + " loses nothing"}
	}
	var faults []string
	kept, lost := 0, 0
	for _, p := range r.nodes {
		fetched := p.fetched()
		for i := 1; i < len(p.lives); i++ {
			text, err := os.ReadFile(p.lives[i].log)
			switch {
			case err != nil:
				faults = append(faults, err.Error())
			case strings.Contains(string(text), feedbackKept):
				kept++
			case strings.Contains(string(text), feedbackLost):
				lost++
				if p.lives[i-1].left && !fetched[i] {
					faults = append(faults, fmt.Sprintf("peer %d had left in order, and has forgotten what it owed: %s",
						p.n, p.lives[i].log))
				}
			}
		}
	}
	return verdict(CheckFeedback, faults, fmt.Sprintf("%d starts went on with it, %d began at zero", kept, lost))
}

// fetched says of each life of a peer whether it fetched a state.
func (p *node) fetched() map[int]bool {
	lives, n := map[int]bool{}, -1
	for _, l := range p.lines {
		switch l.Event {
		case "peer.started":
			n++
		case "state.synced":
			lives[n] = true
		}
	}
	return lives
}
