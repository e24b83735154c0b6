// Package objects is the server's room for the store: it sends objects and manifests to nodes, runs the tracker that
// tells nodes which peers have what, takes versions that operators push, and collects garbage.
//
// It owns the routes of the image port that are named by a digest, and the list of GC roots. The server's wiring
// registers its routes and calls Run. It must never remove what a tag, a group, a rollout or a running node needs, and
// never send an object under another digest than its own.
package objects
