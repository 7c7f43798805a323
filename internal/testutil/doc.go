// Package testutil has what the tests of several packages share: how much they try, random numbers
// that come again (Random), golden files (Golden), values as strangers send them (Vary), streams in
// memory (Pipe), and one CPU for tests in bubbles (OneCPU).
//
// There are three levels of how much tests try:
//
//   - short, with go test -short: what a run under the race detector can afford;
//   - usual, with neither: all of go test ./... takes about five minutes on 2 cores;
//   - nightly, with the environment variable P2PDILOCO_TEST=nightly: the explorers, the random
//     schedules and the long tables in full.
//
// A test that samples takes its number of samples from [Choose], and a test that is worth its time
// at night only asks [Nightly] and skips. The level changes how much is tried, never what has to
// hold.
package testutil
