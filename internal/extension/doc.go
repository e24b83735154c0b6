// Package extension attaches system extensions: it verifies one, starts the daemons behind its block device, and
// mounts it where systemd-sysext looks.
//
// It owns the layout of an extension's directory. Init attaches the extensions of a boot, node/extend those that are
// added later. It must not attach an extension that was built on another version than the one that runs.
package extension
