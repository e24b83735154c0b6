// Package rollout decides how a group changes from one version to another: in waves, of which the first is the canary.
// Each node is drained, rebooted, and judged by the gate once it is back.
//
// It owns no state. Package server/rollouts calls Step, and must record the new state before it acts. It must never do
// I/O or read a clock.
//
// A node is unavailable while it is offline, and from its drain until it has passed the gate. The disruption budget
// bounds how many may be unavailable at a time.
package rollout
