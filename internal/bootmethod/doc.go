// Package bootmethod chooses how a running node comes to its next boot: by its firmware, by kexec or by a soft reboot.
//
// It owns a cache of the systemd releases in versions. Power, rollouts and the diff of nodes ask it. It must never
// choose a method that would leave the node with something of its old boot that the new one changes.
package bootmethod
