// Package top shows a run in a terminal: the same as the page, from the same views.
//
// Model is a model of bubbletea: it takes views and keys, and draws a screen that fits. The arrows
// move in the members, s sorts them by the next column, r the other way round, q ends it.
package top
