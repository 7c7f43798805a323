// Package late tests peers that come late, and what newcomers are given.
package late
