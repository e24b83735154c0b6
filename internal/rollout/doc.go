// Package rollout decides how a group goes from one version to another.
//
// The words. A rollout takes nodes in waves; the first wave is the canary. A node is taken: drained of its work,
// asked to reboot, and judged when it is back. What judges it is the gate. A node that meets it has passed; one
// that does not has failed, and the rollout halts, or returns: every node gets the version before again. A node
// that is not up when its turn comes is passed over, and counts as away. A node is unavailable while it is not up,
// and from when it is taken until it has passed; only so many may be at a time, whatever the reason.
//
// Step is the whole machine. It is given the rollout, what is seen of the nodes, and the time; it returns the
// rollout as it is then and what to do. What to do follows from the state and not from its change, so whoever acts
// may lose or repeat it: the next step says it again. Hence the rule for who calls it: keep the rollout first, then
// act.
//
// A rollout has a clock of its own, which runs while it is looked after. A server that was away for an hour comes
// back to nodes that have as much time as before.
package rollout
