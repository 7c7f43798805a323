// Command p2pdiloco trains one model together with other peers, with no server in the middle.
//
//	p2pdiloco demo        a whole swarm on this machine, to see it work
//	p2pdiloco start       found a run
//	p2pdiloco join        take part in a run
//	p2pdiloco bootstrap   an address that newcomers can start from
//	p2pdiloco status      what a running peer knows
//	p2pdiloco dashboard   the whole run on a web page
//	p2pdiloco top         the same in a terminal
//	p2pdiloco report      what peers have measured, as a page, a picture or a table
//	p2pdiloco doctor      what keeps a peer from a run, or makes it slow
//	p2pdiloco invite      a ticket with which others can join
//	p2pdiloco export      a peer's model as a .safetensors file
//	p2pdiloco remove, readmit, rotate, recover   orders of an operator
//	p2pdiloco id          the ID of a peer, before it joins
//	p2pdiloco trainer-check  whether a shared library is a trainer
//	p2pdiloco version     which versions of program, protocol and arithmetic this is
//
// main.go has the table of commands. Each command is one file that reads flags and wires parts
// together; the parts are under internal, here and in cmd/internal.
package main
