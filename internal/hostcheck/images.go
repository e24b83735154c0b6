package hostcheck

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
)

// checkImages asks the server whether the versions that groups boot are complete.
func checkImages(_ *cmdenv.Env, ctx context.Context, o Options) []Finding {
	c := api.OverSocket(cmdenv.SocketPath(o.Data))
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // the server reads kernels for this
	defer cancel()
	s, err := c.Status(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return found(note, "", "no server runs here, so nobody boots an image")
	}
	if err != nil {
		return found(note, exitcode.HintOf(err), "cannot ask the server for its images: %v", err)
	}
	return imageFindings(s)
}

func imageFindings(s api.Status) (out []Finding) {
	for _, v := range s.Broken {
		out = append(out, found(Problem, v.Do, "%s cannot boot: %s", strings.Join(v.Groups, ", "), v.Problem)...)
	}
	if len(out) > 0 {
		return out
	}
	booting := 0
	for _, g := range s.Groups {
		if g.Desired != "" {
			booting++
		}
	}
	return found(Fine, "", "the versions that groups boot are whole (%d groups)", booting)
}
