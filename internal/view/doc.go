// Package view has the whole run as one peer knows it, made for people: what is waited for, how far
// the slot is, the loss over the slots, the members, the bytes, the agreement, and what happened in
// sentences. All that shows a run takes it from here, so that they say the same.
//
//	w := view.NewWatcher(source)  // source asks a running peer, and puts its events into words
//	go w.Run(ctx)                 // asks again and again
//	changed := w.Look(show)       // calls show with what is known; changed closes when there is more
//
// What members say of themselves is text of strangers: it is cut short here, and whoever shows it
// escapes it. What a peer does not know is left out, and never shown as zero.
//
// # The page
//
// ServePage serves a run as one web page, to this machine: loss, members, bytes, agreement,
// events, and the buttons that a peer's API has. The page is in the program; nothing is fetched
// from elsewhere. static/uplot.js and uplot.css are uPlot 1.6.32, under the licence beside them.
//
//	GET  /        the page, and its scripts and styles
//	GET  /stream  server-sent events: first all, then what has changed (update)
//	POST /doctor  what keeps this peer from its run, or makes it slow
//	POST /move    a motion of the peer's operator: remove or readmit a member
//	POST /ask     what the newest model makes of a prompt
//
// What may read: everybody on this machine in an open run, and who has the key in a private one.
// What writes takes the key always. The key stands in the address that is printed, behind
// the #, which a browser does not send; the page's script sends it as a header. So a web page of
// somebody else that makes a browser ask here has no key, and it is refused by its origin, too; one
// that has made its own name mean this machine (DNS rebinding) is refused by the Host header.
//
// # The terminal
//
// RunScreen shows the same in a terminal. Screen is a model of bubbletea: it takes views and keys,
// and draws a screen that fits. The arrows move in the members, s sorts them by the next column, r
// the other way round, q ends it.
package view
