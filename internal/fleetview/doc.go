// Package fleetview is what the rooms of the server share when they read the fleet: node sets, the version that a node
// should run, and the API's views of nodes, groups, boots and rollouts.
//
// It owns no state: each function reads in the caller's transaction. The rooms of the server call it. It must never
// write to the registry.
package fleetview
