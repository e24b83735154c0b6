// Package packs is the server's part for what boots read: it keeps the read traces that nodes send, makes boot packs
// from them in the background, and shows both to operators.
//
// It owns the directory of read traces, the file that lists which boots are recorded for longer, and the choice of when
// a pack is made again. The server's wiring calls Run and registers the routes; packages that answer boots call
// ForBoot. A boot must never wait for it, and must never need a pack.
package packs
