// Package check reports what a tree lacks before a long build begins: what keeps nodes from booting it, what nodes
// would lack later, and what must not be in an image, such as private keys.
//
// It owns no state. The pipeline (internal/build) calls it. Each finding names the package that has the missing file,
// by the name that the tree's distribution uses. It must never change the tree.
package check
