package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/exitcode"
)

// topics returns help pages about what all commands have in common.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "targets", Short: "How to name nodes and images", Long: targets},
		{Use: "output", Short: "Tables, JSON and errors", Long: outputs},
		{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodes()},
		{Use: "remote", Short: "Which server a command talks to", Long: remote},
	}
}

const targets = `Where a command takes NODES it takes a node set: terms, joined from left to right.

    pc007                    the node of this name
    pc[001-120,130]          the nodes of these names
    52:54:00:12:34:56        the node that has this MAC
    pc1*                     the nodes whose names begin so
    @lab                     the members of group lab
    @all, @discovered        every node; every node that nobody adopted
    room=b12                 nodes with this value of the label; room= those without a value
    room="B & C"             a value that has one of & ! ^ ( )

    a,b                      what is in a or in b
    a&b                      what is in both
    a!b                      what is in a and not in b
    a^b                      what is in one of the two only
    a,(b&c)                  a set in parentheses is one term

No operator comes before another: pc[001-120]!pc007&@lab is pc001 to pc120, without pc007, and of these those in group lab. These are
the signs, and the order, of ClusterShell. Put a set into single quotes: the shell reads brackets, &, !, * and parentheses too.

A name or group in a set that does not exist is an error, and nothing is changed; a pattern or a label may match nothing. A change of
many nodes is made for all of them or for none. With --dry-run the server makes the change and undoes it, so that a dry run finds the
same errors.

Where a command takes an image it takes NAME (its tag latest), NAME:TAG, or NAME@sha256:...`

const outputs = `Tables and text are for people and may change. --json is for programs: every command that reads has it, and prints the same
fields as the HTTP API; a server serves their description at /v1/openapi.json. Fields are added and never change their meaning.
Durations in JSON are nanoseconds, sizes are bytes, times RFC 3339. An error with --json is
{"error":{"code":...,"message":...,"hint":...}} on standard error.

"pando watch" and "pando image build" draw in place on a terminal, and print plain lines otherwise.`

const remote = `On the server's machine, as root, pando uses the socket in the data directory. From elsewhere it needs an address and a token:

    root@server# pando token create desk --ttl 720h
    pando_...
    me@desk$ export PANDO_SERVER=boot.example PANDO_TOKEN=pando_...
    me@desk$ pando node list

The token carries the server's public key. The client pins it, so that no certificate authority and no host name are needed, and a
server with another key is not told the secret. "pando image build" runs on the server's machine only.`

// exitCodes returns a list of the exit codes and their meaning.
func exitCodes() string {
	var b strings.Builder
	b.WriteString("Scripts may branch on the exit code.\n\n")
	for _, x := range []struct {
		code    int
		meaning string
	}{
		{exitcode.OK, "done"},
		{exitcode.Failed, "tried, and failed"},
		{exitcode.Usage, "the command line makes no sense"},
		{exitcode.NotFound, "no such node, group, image, boot or token"},
		{exitcode.Conflict, "exists already, or is still in use"},
		{exitcode.Unreachable, "no server answers"},
		{exitcode.Denied, "the server does not know the token"},
		{exitcode.Problem, "doctor, up: something keeps nodes from booting; store check, image verify: something " +
			"is broken"},
		{exitcode.Warning, "doctor: nothing worse than warnings"},
		{exitcode.Returned, "rollout: it halted, or was rolled back"},
		{exitcode.Interrupted, "stopped by SIGINT or SIGTERM"},
	} {
		fmt.Fprintf(&b, "    %3d  %s\n", x.code, x.meaning)
	}
	return strings.TrimRight(b.String(), "\n")
}
