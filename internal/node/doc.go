// Package node is the node's side of Pando: what runs on a machine between the kernel and its image, and what stays
// beside the image afterwards.
//
// One program has several roles, told apart by the name that it is called by: init, block daemon and its
// supervisor, agent, volume, and a few commands. This package only picks the role and gives each room what it needs
// of the others.
package node
