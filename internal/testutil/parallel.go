package testutil

import (
	"flag"
	"strconv"
)

// Parallel lets n tests or more run at a time, whatever the number of CPUs. A TestMain calls it
// where tests wait for processes, or for time to pass, more than they work.
func Parallel(n int) {
	flag.Parse()
	if now, _ := strconv.Atoi(flag.Lookup("test.parallel").Value.String()); now < n {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // a number is taken
	}
}
