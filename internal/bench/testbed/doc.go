// Package testbed is the environment in which boots are measured: a `pando serve` in a network of namespaces, an image
// with recorded boots and a boot pack, and the replay of such a boot.
//
// It owns the network, the server and the recorded boots. The rooms of the lab that boot something embed a Testbed and
// attach the roots of nodes with it. It must never decide what is measured, or how a result is shown.
package testbed
