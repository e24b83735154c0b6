// Package swarm boots real block daemons, each in its own network namespace, from a real server over links of a limited
// rate. The daemons that read the same boot pack are a swarm and send each other pieces. The server is the origin of
// all pieces, and has the tracker. Every byte is compared.
package swarm
