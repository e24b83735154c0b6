// Package peer moves the bytes of a node's part of a swarm: it fetches from peers and servers, and serves peers.
//
// It owns the connections to peers and trackers, the transfers that run and the objects that a node keeps for others
// beside its pack. What is fetched from whom is decided by package swarm. The block daemon runs a Node; the init
// process calls StartPeers before it has one. It never decides by itself, and never trusts bytes that were not verified.
package peer
