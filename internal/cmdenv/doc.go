// Package cmdenv is what every command of the pando program shares: streams, global flags, and the connection to the
// server.
//
// It makes the API client, the completion of names, the nouns of the command tree, and the text that describes a
// change. The packages below cli call it. It must never depend on a single command.
package cmdenv
