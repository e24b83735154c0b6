package cli

import (
	"context"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/cmdenv"
	"pando/internal/output"
)

// versions is what `version --json` prints.
type versions struct {
	Release string `json:"release"`
	Go      string `json:"go"`
	Server  string `json:"server,omitempty"` // release of the server, if one answers
}

func versionCommand(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:     "version",
		Short:   "Print the release of this program, and of the server where one answers",
		GroupID: "daily",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{Release: env.Release, Go: runtime.Version()}
			if c, err := env.Client(); err == nil {
				defer c.Close()
				ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
				defer cancel()
				if s, err := c.Status(ctx); err == nil { // a missing server is not an error here
					v.Server = s.Release
				}
			}
			if env.JSON {
				return output.JSON(env.Out, v)
			}
			output.Fields(env.Out, "pando", v.Release, "go", v.Go, "server", v.Server)
			return nil
		},
	})
}
