// Package images is the server's room for images: versions, tags and history, differences of two versions, versions
// that boot slower than the one before, and the keys that sign versions.
//
// It owns the replies to operators about images and keys, and signs the versions in the store when keys change. The
// server's wiring registers its routes. It must never change a version: signatures are files beside it, and garbage
// collection deletes its files.
package images
