// Package rundir is the directory /run/pando of a running node: the names of its files, the session that init leaves
// for the agent, and the marks that the image's programs make.
//
// It owns the formats of these files. Every process of Pando on a node uses it. It must not contact a server.
package rundir
