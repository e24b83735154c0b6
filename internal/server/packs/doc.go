// Package packs is the server's room for what boots read: it keeps the read traces that nodes send, makes boot packs of
// them in the background, and shows both to operators.
//
// It owns the directory of read traces, the file that says which boots are recorded longer, and the choice of when a
// pack is made again. The server's wiring calls Run and registers the routes; whoever answers a boot asks ForBoot. A
// boot must never wait for it, and a pack must never be needed for a boot.
package packs
