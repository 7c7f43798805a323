// Package linkd keeps a network of namespaces (internal/lab) on one machine and changes it on
// request: `p2plab lab up` runs Up, and `p2plab lab do` sends it commands with Ask.
//
// A command is one line of words; nodes are called n1, n2 and so on:
//
//	nodes                      name, namespace and address of each node
//	link NODE...|all KEY=...   change links: rate, delay, jitter, loss, queue; other settings stay
//	pair NODE NODE [KEY=...]   put a further link between two nodes; without settings, remove it
//	cut NODE...                unplug nodes
//	cutpair NODE NODE          keep two nodes from reaching each other
//	partition N1,N2 N3,...     groups that cannot reach each other; nodes not named form one more
//	heal [NODE...]             end the cuts of these nodes, or all cuts
//	stats                      packets and bytes by node
//	down                       end the network
package linkd
