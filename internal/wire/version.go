package wire

import "fmt"

// The protocol version that this program speaks, as a number, which begins each envelope and each
// ticket and which hellos compare, and as text, for run specs and people. It is a development
// version: no release speaks it, and it changes from one commit to the next.
const (
	Version     = 203
	VersionText = "3-dev"
)

// VersionError refuses what a program of another protocol version made or says.
type VersionError struct {
	What   string
	Theirs string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%s is of protocol version %s, not %s: a release that speaks version %[2]s (p2pdiloco version "+
		"says which one it speaks) can finish its run", e.What, e.Theirs, VersionText)
}
