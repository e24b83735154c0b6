// Command pando is the operator's tool and the server of Pando.
//
//	pando up --interface eth1      check, set up at the first start, and serve
//	pando <noun> <verb> [target]   node, group, image, boot, token, lease, key, policy
//	pando status | watch | doctor  what is going on, and what is wrong
//
// It passes the arguments and streams of the process to package cli, which has the commands. It must never do more
// than that. The tests here start the whole program against real servers on loopback.
package main
