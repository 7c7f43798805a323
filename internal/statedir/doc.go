// Package statedir chooses the data directory of a peer that was given none: one a run and peer under the user's state
// directory, kept over restarts. Peers started side by side on one machine get one each: a lock file beside the directory
// says which are taken.
package statedir
