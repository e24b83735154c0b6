// Package config has the commands `config` and `secret`: files that nodes get at boot, and the values in them that
// nobody may read.
//
// It calls the HTTP API with what it reads from files and standard input. The package cli adds the commands to the
// tree. It must never print a secret.
package config
