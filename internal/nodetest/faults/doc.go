// Package faults tests runs in which peers crash, freeze or leave, at each moment of a slot.
package faults
