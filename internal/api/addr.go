package api

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
)

// Address is the address of an API: a HOST:PORT, which must be a loopback one except for metrics,
// or unix: and the path of a socket.
type Address struct {
	network string // tcp | unix
	place   string
}

const unixPrefix = "unix:"

// maxSocketPath is the length of a path that fits a Unix socket address on all systems, in bytes.
const maxSocketPath = 103

var errNotLoopback = errors.New("the status API is for this machine only: give a loopback address like 127.0.0.1:0 " +
	"(any free port) or [::1]:8080, or unix:PATH")

// ParseAddress reads an address and refuses one that other machines could reach. Its errors say
// why, without s.
func ParseAddress(s string) (Address, error) {
	a, err := parse(s, errNotLoopback)
	if err == nil && a.network == "tcp" && !a.local() {
		return Address{}, errNotLoopback
	}
	return a, err
}

// CheckLoopback refuses what is no HOST:PORT of this machine.
func CheckLoopback(s string) error {
	if a, err := ParseAddress(s); err != nil || a.network == "unix" {
		return errors.New("give a loopback address, like 127.0.0.1:8412 or 127.0.0.1:0 (any free port)")
	}
	return nil
}

// Socket is the address of a socket, as ParseAddress reads it.
func Socket(path string) string { return unixPrefix + path }

// ParseMetricsAddress reads an address that other machines may reach, because metrics can only be
// read.
func ParseMetricsAddress(s string) (Address, error) {
	return parse(s, errors.New("give HOST:PORT, like 127.0.0.1:9464, or :9464 for all addresses of this machine, or "+
		"unix:PATH"))
}

// parse reads an address of any host; shape is the error for text that is not an address.
func parse(s string, shape error) (Address, error) {
	if path, ok := strings.CutPrefix(s, unixPrefix); ok {
		return socket(path)
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return Address{}, shape
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return Address{}, errors.New("the port must be a number from 0 to 65535")
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	return Address{"tcp", net.JoinHostPort(host, port)}, nil
}

// socket is the address of a socket. Its path is made absolute: who reads the address may work in
// another folder.
func socket(path string) (Address, error) {
	given := path
	if path != "" {
		var err error
		if path, err = filepath.Abs(path); err != nil {
			return Address{}, err
		}
	}
	if path == "" || len(path) > maxSocketPath {
		long := ""
		if path != given {
			long = fmt.Sprintf(" (%s has %d)", path, len(path))
		}
		return Address{}, fmt.Errorf("the socket's path must have 1 to %d bytes%s", maxSocketPath, long)
	}
	return Address{"unix", path}, nil
}

// local says whether it is a loopback HOST:PORT.
func (a Address) local() bool {
	host, _, err := net.SplitHostPort(a.place)
	return a.network == "tcp" && err == nil && isLoopback(host)
}

// String is the address as ParseAddress reads it.
func (a Address) String() string {
	if a.network == "unix" {
		return unixPrefix + a.place
	}
	return a.place
}

// isLoopback says whether host is a loopback address. It asks no name server.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
