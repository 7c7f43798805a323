//go:build race

package gossip

// underRace: everything takes ten times as long.
const underRace = true
