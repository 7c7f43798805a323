// Package private tests private runs: tickets, secrets, and the removal of peers.
package private
