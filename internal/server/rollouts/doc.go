// Package rollouts carries out rollouts: it observes the nodes of a group, steps the pure state machine of
// internal/rollout, and reboots nodes and runs hooks as a step requires.
//
// It owns the actions that are running, in memory; rollouts themselves are in the registry. Operators call its routes,
// and it runs by itself. It must never act on a step that is not recorded.
package rollouts
