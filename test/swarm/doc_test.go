// Package swarm has real block daemons, each in a network namespace of its own, boot from a real server over links of a
// limited rate, and give each other what they have. Every byte is compared. A swarm is the daemons that read the same
// boot pack; the server is the origin of all of it, and its tracker.
package swarm
