// Package bootplan decides what the next boot of a node runs: image version, kernel arguments, hardware classes.
//
// It owns no state; it reads the registry and the manifests. Packages that answer boots, make boot media or compare
// what runs with what should run call it. It must never write, and must use nothing that a node reports except its
// hardware.
package bootplan
