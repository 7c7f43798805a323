// Package disk has what the parts that keep files share: the file system as an interface, writes
// that are whole and durable or did not happen (Create, Replace), bounded reads (Read), and the
// lock that keeps a second process out of a directory.
package disk
