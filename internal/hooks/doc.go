// Package hooks finds the programs that an operator lets the server run: files in one directory that only root can
// write.
//
// It owns no state. Rollouts (drain, undrain, gates, reboot) and power (the command method) look up hooks by name. It
// must never return a file that anybody except root and the server's user could have written.
package hooks

// Dir is the directory of the hooks, in the data directory.
const Dir = "hooks"
