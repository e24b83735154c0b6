// Package bootmedia is the server's room for boot media: USB sticks and disks from which machines start that cannot
// boot from the network. It makes them for operators, and brings those of running nodes up to date.
//
// It owns the digests of what media have, and how many are sent at once. The server's wiring registers its routes.
// A medium must never have a token or a secret: whoever finds one reads all of it.
package bootmedia
