// Package faults tests runs in which peers crash, freeze or leave, at each moment of a slot, and
// runs whose network splits: the minority waits or forks, and branches merge.
package faults
