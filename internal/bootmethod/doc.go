// Package bootmethod chooses how a running node gets to its next boot: through its firmware, by kexec, or by a soft
// reboot.
//
// It owns a cache of the systemd release of each version. Power, rollouts and the diff of nodes call it. It must never
// choose a method that keeps something of the old boot that the new boot changes.
package bootmethod
