// Package discovery records machines that nobody has declared, and adopts those that the site's policy lets in.
//
// It owns the limits of what unknown machines can make the server store. Rooms that see packets and requests of
// machines, and the one where operators declare nodes, call it. It must never overwrite what an operator declared.
package discovery
