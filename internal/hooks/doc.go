// Package hooks finds the programs that an operator may have the server run: files in one directory that only root can
// put there.
//
// It owns no state. Rollouts (drain, undrain, gates, reboot) and power (the command method) look up hooks by name. It
// must never return a file that somebody else than root or the server's user could have written.
package hooks

// Dir is the directory of the hooks, in the data directory.
const Dir = "hooks"
