// Package images is the server's room for images: their versions, tags and history, how two versions differ, which
// versions boot slower than the one before, and the keys that sign them.
//
// It owns the answers to operators about images and keys, and signs what is in the store when keys change. The server's
// wiring registers its routes. It must never change a version: signatures are beside it, and files go with the next
// garbage collection.
package images
