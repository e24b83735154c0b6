// Package bootmedia makes boot media: USB sticks and disks for machines that cannot boot from the
// network. It makes them for operators, and sends updates of the media of running nodes.
//
// It owns the digests of what media have, and the limit of concurrent downloads. The server's wiring registers its
// routes. It must never put a token or a secret on a medium: whoever finds one can read all of it.
package bootmedia
