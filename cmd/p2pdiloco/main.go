// Command p2pdiloco trains one model together with other peers, with no server in the middle.
//
//	p2pdiloco demo        a whole swarm on this machine, to see it work
//	p2pdiloco chaos       the same, hurt by a schedule, to see that nothing agreed is lost
//	p2pdiloco join        take part in a run
//	p2pdiloco bootstrap   an address that newcomers can start from
//	p2pdiloco status      what a running peer knows
//	p2pdiloco trainer-check  whether a shared library is a trainer
//
// Each command is one file here that reads flags and wires parts together; the parts are under internal.
package main

import "os"

func main() { os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr)) }
