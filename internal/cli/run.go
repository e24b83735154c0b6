package cli

import (
	"context"
	"io"
	"time"

	"pando/internal/cmdenv"
)

// Run is the whole program of a release: it parses args, does what they say and returns the exit code.
func Run(ctx context.Context, release string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	env := &cmdenv.Env{In: stdin, Out: stdout, Err: stderr, Now: time.Now, Release: release}
	root := newRoot(env)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	return finish(env, ctx, err)
}
