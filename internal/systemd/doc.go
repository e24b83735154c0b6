// Package systemd calls the image's systemd: how long its boot took, whether the machine is shutting down, and to
// start units.
//
// It owns no state. The agent and other code on a running node use it. It must not be needed: an image without systemd
// has no figures, and boots all the same.
package systemd
