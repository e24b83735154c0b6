// Package check says what a tree lacks before a long build begins: what keeps nodes from booting it, what they would
// miss, and what no image should have, such as private keys.
//
// It owns no state. The pipeline (internal/build) calls it. Each finding names the package that brings what is
// missing, as the tree's distribution calls it. It must never change the tree.
package check
