// Package doctor looks for what keeps a peer from taking part in a run, or makes it slow: on the machine, and on the ways to others. Each
// finding says what to do about it.
//
//	findings := append(doctor.Local(doctor.Host{}, dir, need), view.Check()...)
//	ok := doctor.Worst(findings) != doctor.Fail
//
// The checks are pure: they ask a Machine, which tests make up, and a View, which the caller fills from a running peer or from a network of
// its own.
package doctor
