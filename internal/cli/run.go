package cli

import (
	"context"
	"io"
	"time"

	"pando/internal/cmdenv"
	"pando/internal/output"
)

// Run is the whole program: it parses args, runs the command and returns the exit code. release is the program's
// version.
func Run(ctx context.Context, release string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out, errs := output.NewWriter(stdout), output.NewWriter(stderr)
	env := &cmdenv.Env{In: stdin, Out: out, Err: errs, Now: time.Now, Release: release}
	root := newRoot(env)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	return finish(env, ctx, err)
}
