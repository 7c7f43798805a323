//go:build !race

package testutil

// OneCPU does something with -race alone (onecpu_race.go).
func OneCPU() {}
