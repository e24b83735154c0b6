// Package node is Pando on a node: what runs on a machine between the kernel and its image, and beside the image
// afterwards.
//
// It owns the choice of the role by the name of the program (argv[0]): init, block daemon and its supervisor, agent,
// volume, and a few commands. It connects the packages of a role by interfaces. cmd/pando-init calls it. It must never
// do a role's work itself.
package node
