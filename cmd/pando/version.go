package main

import (
	"context"
	"runtime"
	"time"

	"github.com/spf13/cobra"
)

// release is set by the linker: -X main.release=...
var release = "dev"

// versions is what `version --json` prints.
type versions struct {
	Release string `json:"release"`
	Go      string `json:"go"`
	Server  string `json:"server,omitempty"` // release of the server, where one answers
}

func (a *app) versionCommand() *cobra.Command {
	return a.readFlags(&cobra.Command{
		Use:     "version",
		Short:   "Print the release of this program, and of the server where one answers",
		GroupID: "daily",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{Release: release, Go: runtime.Version()}
			if c, err := a.client(); err == nil {
				defer c.Close()
				ctx, cancel := context.WithTimeout(cmd.Context(), 2*time.Second)
				defer cancel()
				if s, err := c.Status(ctx); err == nil { // no server is no error here
					v.Server = s.Release
				}
			}
			if a.json {
				return writeJSON(a.out, v)
			}
			fields(a.out, "pando", v.Release, "go", v.Go, "server", v.Server)
			return nil
		},
	})
}
