// Package site has the commands `lease`, `policy` and `media`: addresses, how the site treats unknown machines, and
// boot media.
//
// It calls the HTTP API, and writes a boot medium to a file or disk. The package cli adds the commands to the tree. It
// must never write to a disk that is in use.
package site
