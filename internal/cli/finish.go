package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/output"
	"pando/internal/server"
)

// finish prints the error, if there is one, and returns the exit code.
func finish(env *cmdenv.Env, ctx context.Context, err error) int {
	var quiet *exitcode.SilentError
	switch {
	case err == nil:
		return exitcode.OK
	case errors.As(err, &quiet):
		return quiet.Code
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitcode.Interrupted
	}
	hint := exitcode.HintOf(err)
	if env.JSON {
		output.JSON(env.Err, api.ErrorBody{Error: &api.Error{Code: codeOf(err), Message: err.Error(), Hint: hint}})
		return exitCode(err)
	}
	// Lines after the first are indented, so that text from a server cannot look like a message of this program.
	below := strings.NewReplacer("\n", "\n  ", "\t", " ")
	fmt.Fprintln(env.Err, "pando:", below.Replace(err.Error()))
	if hint != "" {
		fmt.Fprintln(env.Err, " hint:", below.Replace(hint))
	}
	return exitCode(err)
}

func exitCode(err error) int {
	var usage *exitcode.UsageError
	var lost *api.UnreachableError
	var inUse *server.InUseError
	switch {
	case errors.As(err, &usage), api.IsCode(err, api.BadRequest):
		return exitcode.Usage
	case api.IsCode(err, api.NotFound):
		return exitcode.NotFound
	case api.IsCode(err, api.Conflict), errors.As(err, &inUse):
		return exitcode.Conflict
	case api.IsCode(err, api.Unauthorized):
		return exitcode.Denied
	case errors.As(err, &lost):
		return exitcode.Unreachable
	}
	return exitcode.Failed
}

// codeOf returns the code of an error for the JSON output; "unreachable", "usage" and "failed" exist only here.
func codeOf(err error) api.Code {
	var refused *api.Error
	if errors.As(err, &refused) {
		return refused.Code
	}
	switch exitCode(err) {
	case exitcode.Usage:
		return "usage"
	case exitcode.Unreachable:
		return "unreachable"
	}
	return "failed"
}
