//go:build !unix

package reducebench

// cpuSeconds is 0, because the system does not say.
func cpuSeconds() float64 { return 0 }
