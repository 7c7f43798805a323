//go:build !hostile

package main

import "github.com/spf13/cobra"

// hasHostile says that this program cannot be a hostile peer.
const hasHostile = false

// addHostile adds nothing.
func addHostile(*cobra.Command) {}
