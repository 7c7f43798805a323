// Package cclient tests the attach client in C (bridge/include/p2pdiloco_attach.h) and its example
// (examples/c/attach.c): the bytes of its messages, and a run of it against a real server.
package cclient
