// Package rollout decides how a group changes from one version to another.
//
// A rollout takes nodes in waves; the first wave is the canary. Each node is drained, rebooted, and judged by the gate
// once it is back. A node that meets the gate has passed, one that does not has failed; then the rollout halts or
// rolls back: every node gets the previous version again. A node that is offline when its wave runs is skipped and
// counted as offline. A node is unavailable while it is offline, and from its drain until it has passed. The
// disruption budget bounds how many may be unavailable at a time.
//
// Step is the whole state machine: it takes the rollout, the state of its nodes and the time, and returns the new
// state and the actions. Actions follow from the state, not from its change, so a lost action is returned again by the
// next step, and a repeated one does no harm. A rollout's clock runs only while a server steps it, so a server's
// outage costs no node its time.
//
// It owns no state. Package server/rollouts calls it, and must record the new state before it acts. Step must
// never do I/O or read a clock.
package rollout
