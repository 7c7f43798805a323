//go:build !linux

package machine

func physical() uint64 { return 0 }
