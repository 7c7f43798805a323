// Package partitions tests runs whose network splits: the minority waits or forks, and branches
// merge.
package partitions
