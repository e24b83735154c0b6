// Package chunk knows how a root file system is cut into pieces, how a piece is packed and named, and how
// the index says which piece holds which bytes. It is pure: no files, no sockets, no clock.
//
// The words. A chunk is a raw extent that is compressed and verified as one. An object is a chunk (or an
// index page) as it is stored and sent; its name is the SHA-256 of those stored bytes, so they are checked
// before anything looks inside them. A block is the 4 KiB unit of the file system; chunks start and end on
// blocks. The index maps raw extents to objects in two levels: a root, which the manifest names, lists
// pages, and a page lists chunks. A reader fetches the pages it needs and no other.
//
// The bytes of pages and root are specified in docs/formats/chunk-index.md.
package chunk
