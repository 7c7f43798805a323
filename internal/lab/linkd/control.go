package linkd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/p2pdiloco/p2pdiloco/internal/lab"
)

// network is what control changes: a lab.Lab, or a substitute in tests.
type network interface {
	Nodes() int
	Describe(i int) string
	SetLink(i int, link lab.Link) error
	SetPair(i, j int, link lab.Link) error
	Cut(nodes ...int) error
	CutPair(i, j int) error
	Partition(groups ...[]int) error
	Heal(nodes ...int) error
	Stats(i int) lab.Stats
}

// A control carries out commands, one at a time.
type control struct {
	net  network
	down chan struct{} // closed by the first down
	mu   struct {
		sync.Mutex
		links []lab.Link // as they are now
		ended bool
	}
}

func newControl(n network, link lab.Link) *control {
	c := &control{net: n, down: make(chan struct{})}
	c.mu.links = slices.Repeat([]lab.Link{link}, n.Nodes())
	return c
}

// do carries out one command line and returns what to print.
func (c *control) do(line string) (string, error) {
	words := strings.Fields(line)
	if len(words) == 0 {
		return "", errors.New("no command")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	command, rest := words[0], words[1:]
	switch command {
	case "nodes":
		return c.list(), nil
	case "stats":
		return c.stats(), nil
	case "link":
		return "", c.link(rest)
	case "pair":
		return "", c.pair(rest)
	case "cut", "heal", "cutpair":
		return "", c.cut(command, rest)
	case "partition":
		return "", c.partition(rest)
	case "down":
		if !c.mu.ended {
			c.mu.ended = true
			close(c.down)
		}
		return "", nil
	}
	return "", fmt.Errorf("unknown command %q: nodes, link, pair, cut, cutpair, partition, heal, stats or down",
		command)
}

func (c *control) list() string {
	var b strings.Builder
	for i := range c.net.Nodes() {
		fmt.Fprintf(&b, "n%d %s\n", i+1, c.net.Describe(i))
	}
	return b.String()
}

func (c *control) stats() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE\tSENT\tRECEIVED\tPACKETS LOST\tQUEUE FULL\tCUT\tLINK")
	for i, link := range c.mu.links {
		s := c.net.Stats(i)
		fmt.Fprintf(w, "n%d\t%d\t%d\t%d\t%d\t%d\t%s\n", i+1, s.SentBytes, s.ReceivedBytes, s.Lost, s.Overflowed, s.Cut,
			formatLink(link))
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// link changes the links of the nodes that are named first.
func (c *control) link(words []string) error {
	split := slices.IndexFunc(words, func(w string) bool { return strings.Contains(w, "=") })
	if split < 1 {
		return errors.New("want link NODE... KEY=VALUE..., such as link n2 rate=1mbit")
	}
	var nodes []int
	var err error
	if split == 1 && words[0] == "all" {
		for i := range c.net.Nodes() {
			nodes = append(nodes, i)
		}
	} else if nodes, err = c.parseNodes(words[:split]); err != nil {
		return err
	}
	for _, i := range nodes {
		link, err := parseLink(c.mu.links[i], words[split:])
		if err == nil {
			err = c.net.SetLink(i, link)
		}
		if err != nil {
			return err
		}
		c.mu.links[i] = link
	}
	return nil
}

func (c *control) pair(words []string) error {
	if len(words) < 2 {
		return errors.New("want pair NODE NODE [KEY=VALUE...]")
	}
	nodes, err := c.parseNodes(words[:2])
	if err != nil {
		return err
	}
	link, err := parseLink(lab.Link{}, words[2:])
	if err != nil {
		return err
	}
	return c.net.SetPair(nodes[0], nodes[1], link)
}

func (c *control) cut(command string, words []string) error {
	nodes, err := c.parseNodes(words)
	switch {
	case err != nil:
		return err
	case command == "heal":
		return c.net.Heal(nodes...)
	case command == "cut" && len(nodes) > 0:
		return c.net.Cut(nodes...)
	case command == "cutpair" && len(nodes) == 2:
		return c.net.CutPair(nodes[0], nodes[1])
	}
	return errors.New("want cut NODE..., or cutpair NODE NODE")
}

func (c *control) partition(words []string) error {
	if len(words) == 0 {
		return errors.New("want partition GROUP..., such as partition n1,n2 n3,n4")
	}
	var groups [][]int
	for _, word := range words {
		nodes, err := c.parseNodes(strings.Split(word, ","))
		if err != nil {
			return err
		}
		groups = append(groups, nodes)
	}
	return c.net.Partition(groups...)
}

// parseNodes reads names n1, n2, ... as numbers from 0.
func (c *control) parseNodes(names []string) (nodes []int, err error) {
	for _, name := range names {
		number, ok := strings.CutPrefix(name, "n")
		i, err := strconv.Atoi(number)
		if !ok || err != nil || i < 1 || i > c.net.Nodes() {
			return nil, fmt.Errorf("no node %q: they are n1 to n%d", name, c.net.Nodes())
		}
		nodes = append(nodes, i-1)
	}
	return nodes, nil
}
