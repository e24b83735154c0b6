// Package config has the commands `config` and `secret`: files that nodes get at boot, and secret values in them.
//
// It sends the HTTP API what it reads from files and standard input. The package cli adds the commands to the tree. It
// must never print a secret.
package config
