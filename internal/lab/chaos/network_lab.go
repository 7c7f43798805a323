package chaos

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// The namespaces' names begin with labName, so that a later run removes those of a crashed one.
const labName = "p2pchaos"

// An undisturbed link is like that of a building's network.
const goodDelay = 200 * time.Microsecond

// Over a slow link a slot of the tiny model still passes in about a second.
const (
	slowRate  = 4_000_000 // bits a second
	slowDelay = 40 * time.Millisecond
)

// labNetwork is a network of namespaces, one a site.
type labNetwork struct{ *lab.Lab }

// openLinks makes a network whose links can be changed.
func openLinks(ctx context.Context, sites int) (network, error) {
	l, err := lab.New(ctx, lab.Config{Nodes: sites, Name: labName, Link: lab.Link{Delay: goodDelay}})
	if err != nil {
		return nil, fmt.Errorf("%w (or leave out the faults %s)", err, Join(NeedLinks(Kinds(true))))
	}
	return labNetwork{l}, nil
}

// CanLinks says why links cannot be changed here, or nil.
func CanLinks(ctx context.Context) error {
	l, err := lab.New(ctx, lab.Config{Nodes: 1, Name: labName + "try"})
	if err != nil {
		return err
	}
	return l.Close()
}

func (n labNetwork) listen(site int) []string { return n.Listen(site) }

func (n labNetwork) command(site int, program string, args ...string) *exec.Cmd {
	return n.Command(site, program, args...)
}

func (n labNetwork) cut(site int) error         { return n.Cut(site) }
func (n labNetwork) partition(some []int) error { return n.Partition(some) }
func (n labNetwork) heal(site int) error        { return n.Heal(site) }
func (n labNetwork) healAll() error             { return n.Heal() }

func (n labNetwork) slow(site int, slow bool) error {
	link := lab.Link{Delay: goodDelay}
	if slow {
		link = lab.Link{Rate: slowRate, Delay: slowDelay}
	}
	return n.SetLink(site, link)
}
