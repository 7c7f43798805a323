package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// The namespaces' names begin with labName, so that a later run removes those of a crashed one.
const labName = "p2pchaos"

// An undisturbed link is like that of a building's network. Over a slow one a slot of the tiny
// model still passes in about a second.
var (
	goodLink = lab.Link{Delay: 200 * time.Microsecond}
	slowLink = lab.Link{Rate: 4_000_000, Delay: 40 * time.Millisecond}
)

// openLinks makes a network whose links can be changed. Site 0 is that of the bootstrap node, site
// n that of peer n.
func openLinks(ctx context.Context, sites int) (*lab.Lab, error) {
	l, err := lab.New(ctx, lab.Config{Nodes: sites, Name: labName, Link: goodLink})
	if err != nil {
		return nil, fmt.Errorf("%w (or leave out the faults %v)", err, NeedLinks(Kinds(true)))
	}
	return l, nil
}

// CanLinks says why links cannot be changed here, or nil.
func CanLinks(ctx context.Context) error {
	l, err := lab.New(ctx, lab.Config{Nodes: 1, Name: labName + "try"})
	if err != nil {
		return err
	}
	return l.Close()
}
