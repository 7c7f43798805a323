// Package rounds tests what a round takes and gives: time, data, statistics, loops of one's own.
package rounds
