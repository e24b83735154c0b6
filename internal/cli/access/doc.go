// Package access has the commands `token`, `user` and `audit`: the users of the server, and what they changed.
//
// It owns no state: a verb calls the HTTP API once and prints the reply as a table or JSON. The package cli adds the
// commands to the tree. It must never print a password, and never print a token after it was made.
package access
