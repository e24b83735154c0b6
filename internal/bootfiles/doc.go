// Package bootfiles fetches and verifies what a boot starts with: the manifest of a version, its signature, and the
// map of its boot pack, from peers or servers.
//
// It owns nothing. Init uses it for the root, extensions for themselves. It must not return a byte that is not
// verified.
package bootfiles
