//go:build race

package onecpu

import "runtime"

func init() { runtime.GOMAXPROCS(1) }
