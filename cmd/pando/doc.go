// Command pando is the operator's tool and the server of Pando.
//
//	pando up --interface eth1      check, set up at the first start, and serve
//	pando <noun> <verb> [target]   node, group, image, boot, token, lease, key, policy
//	pando status | watch | doctor  what is going on, and what is wrong
//
// Commands that read print a table, or with --json a stable object. A target is a node set: pc[001-120],
// @group, label=value, joined with , & ! and ^. Everything but `up`, `serve`, `image build` and `doctor` is a
// client of the HTTP API: by the socket in the data directory, or remotely by --server and --token. The exit
// codes are in exit.go and docs/cli.md.
//
// main only wires: run has the commands, its arguments and streams are parameters, and tests call it.
package main
