// Package access has the commands `token`, `user` and `audit`: who may use the server, and who changed what.
//
// Each verb is one call of the HTTP API and a table or JSON of its answer. The package cli adds the commands to the
// tree. It must never print a password, nor a token after it was made.
package access
