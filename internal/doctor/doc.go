// Package doctor looks for causes that keep a peer from taking part in a run, or make it slow: on
// the machine, and on the ways to other peers. Each finding says what to do about it.
//
//	findings := append(doctor.Local(doctor.Host{}, dir, need), view.Check()...)
//	ok := doctor.Worst(findings) != doctor.Fail
//
// The checks are pure functions of a Machine, which tests replace, and of a View, which the caller
// fills from a running peer or from a network of its own.
package doctor
