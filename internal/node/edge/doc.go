// Package edge joins the parts of a node to its network: the ledger's messages (Ledger), and the
// streams of the all-reduce and of the state transfer (Bulk).
//
// A node makes a Ledger, hands it to the ledger's driver as its transport, and then Opens it with
// what receives messages: nothing is sent or received before. It Closes it before the network.
package edge
