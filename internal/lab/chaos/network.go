package chaos

import "os/exec"

// network is where the processes run, and what can be done to their links. Site 0 is that of the
// bootstrap node, site n that of peer n.
type network interface {
	// listen are the flags that make a process of a site listen where the others reach it.
	listen(site int) []string
	// command prepares a process of a site.
	command(site int, program string, args ...string) *exec.Cmd
	// cut separates a site from all others, until heal.
	cut(site int) error
	// partition separates some sites from the others, until healAll.
	partition(some []int) error
	// heal ends the cuts of a site; healAll ends all, and the partition.
	heal(site int) error
	healAll() error
	// slow makes a site's link slow and long, or restores it.
	slow(site int, slow bool) error
	// Close takes the network down; all processes have ended.
	Close() error
}
