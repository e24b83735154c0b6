// Package extension attaches system extensions: it verifies one, starts the daemons behind its device, and mounts
// it where systemd-sysext looks.
//
// It owns the layout of an extension's directory. Init attaches those of a boot, node/extend those that come later.
// It must not attach what was not built on the version that runs.
package extension
