package bench

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/p2pdiloco/p2pdiloco/p2p"
)

// PeakMemory is the largest memory use of the process, in bytes; 0 if the system does not say. On
// Linux getrusage would include the use of its parent from before the exec.
func PeakMemory() float64 { return memory("VmHWM") }

// LiveMemory is the memory use of the process without garbage, which it collects, in bytes; 0 if
// the system does not say.
func LiveMemory() float64 {
	debug.FreeOSMemory()
	return memory("VmRSS")
}

func memory(field string) (kb float64) {
	b, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(b), "\n"+field+":")
	_, _ = fmt.Sscan(rest, &kb)
	return kb * 1024
}

// Counts are what was used up to a moment, in the order of countUnits. Bytes are those of streams
// that were sent, without what TLS, TCP and QUIC add.
type Counts [len(countUnits)]float64

var countUnits = [...]string{
	"cpu-sec",    // of whole processes, their trainers included
	"exchange-B", // frames of the all-reduce
	"control-B",  // hello, ledger messages, pulses
	"gossip-B",   // gossip, DHT, libp2p's own protocols
}

// countsNow are those since the process began, of which the network knows the traffic.
func countsNow(t p2p.Traffic) Counts {
	return Counts{CPUSeconds(), float64(t.Exchange.Sent), float64(t.Control.Sent), float64(t.Gossip.Sent)}
}

// CPUSeconds is the CPU time that the process has used, the system's share included.
func CPUSeconds() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // fails for wrong arguments only
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
