// Package disks tests what whole nodes make of their disks: lost, damaged, old and full ones, power
// cuts, and what is exported from them.
package disks
