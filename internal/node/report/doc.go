// Package report has what a node reports of itself: events and status. It only observes: it decides
// nothing, and no part of a node waits for it.
//
//	Events   hands each event to Config.OnEvent, one at a time
//	Ledger   makes events of what happens in the ledger (membership)
//	Status   what a node knows of its run at one moment, put together from views of its parts
package report
