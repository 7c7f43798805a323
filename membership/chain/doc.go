// Package chain holds the certified records of a run, the newest in memory and all on disk
// (records.go), what they amount to (position.go with state.go and recent.go), and what follows
// from that alone: which record may come next (check.go), which peers may be members (access.go),
// which have contributed (newcomers.go), which members have a vote where that is earned
// (seats*.go), which member trains on which part of the data (assign.go), and how many inner steps
// each member is to do (pace.go).
//
// A Chain only grows. Extend verifies a record with its certificate and appends it; Push appends
// one that was verified before. Release leaves old ones to the disk. A chain that follows another
// branch is another Chain: UpTo gives a copy to start it from, or Reread where that is on disk. All
// peers that hold the same records get the same answers, whatever else they know: the package reads
// no clock and knows nothing of which peers are heard.
package chain
