// Command pando is the operator's tool and the server of Pando.
//
//	pando up --interface eth1      check, set up at the first start, and serve
//	pando <noun> <verb> [target]   node, group, image, boot, token, lease, key, policy
//	pando status | watch | doctor  what is going on, and what is wrong
//
// main only gives the process's arguments and streams to the package cli, which has the commands. The tests here
// start the whole program against real servers on loopback.
package main
