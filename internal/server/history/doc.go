// Package history has the past boots: a line for each boot, figures and comparisons of versions, the server's traffic
// while nodes booted, which peers sent nodes their roots, and which boots have a fault now.
//
// It owns the recorder of events and the sampler of the server's traffic; the lines are in the registry. Operators
// call its routes. It must never delay a boot: it reads events after they were recorded.
package history
