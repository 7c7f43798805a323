// Package page serves a run as one web page, to this machine: loss, members, bytes, agreement,
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
package page
