// Package peer moves the bytes of a node's part of a swarm: it fetches from peers and servers, and serves peers.
//
// It owns the connections to peers and trackers, the running transfers, and the demand objects that a node keeps for
// others. The block daemon runs a Node; init calls Join before that Node exists. Package swarm decides which object is
// fetched from which peer. This package never decides, and never passes on bytes that were not verified.
package peer
