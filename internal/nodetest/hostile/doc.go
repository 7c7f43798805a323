// Package hostile tests runs with members that lie, that send slowly, and with strangers.
package hostile
