package lab

// cuts say which nodes cannot reach each other. A packet is stopped where it starts and where it
// would arrive: a packet under way when a cut begins is lost, unless the cut ends before it
// arrives.
type cuts struct {
	nodes []bool
	pairs map[pair]bool // both orders
	group []int         // of each node; nodes of different groups are apart
}

func newCuts(nodes int) cuts {
	return cuts{nodes: make([]bool, nodes), pairs: make(map[pair]bool), group: make([]int, nodes)}
}

func (c *cuts) apart(i, j int) bool {
	return c.nodes[i] || c.nodes[j] || c.group[i] != c.group[j] || c.pairs[pair{i, j}]
}

func (c *cuts) cutPair(i, j int) {
	c.pairs[pair{i, j}] = true
	c.pairs[pair{j, i}] = true
}

// partition puts the nodes into groups. All nodes that are not named form one more group.
func (c *cuts) partition(groups [][]int) {
	clear(c.group)
	for g, nodes := range groups {
		for _, i := range nodes {
			c.group[i] = g + 1
		}
	}
}

func (c *cuts) heal() {
	clear(c.nodes)
	clear(c.pairs)
	clear(c.group)
}

func (c *cuts) healNode(i int) {
	c.nodes[i] = false
	for way := range c.pairs {
		if way.from == i || way.to == i {
			delete(c.pairs, way)
		}
	}
}
