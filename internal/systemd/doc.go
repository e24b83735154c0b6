// Package systemd asks the image's systemd: what it did when it booted, whether the machine goes down, and to start
// units.
//
// It owns nothing. The agent and what changes a running node use it. It must not be needed: an image without
// systemd has no figures, and boots all the same.
package systemd
