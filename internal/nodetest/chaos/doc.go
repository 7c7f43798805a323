// Package chaos tests whole runs in which peers, links and disks fail at random, and checks every
// record and state that any peer ever showed; and that a long run does not grow.
package chaos
