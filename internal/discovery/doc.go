// Package discovery records machines that nobody has declared, and adopts those that the site's policy accepts.
//
// It owns the limits on what unknown machines can make the server store. The packages that receive packets and requests
// of machines call it, and the one where operators declare nodes. It must never overwrite what an operator declared.
package discovery
