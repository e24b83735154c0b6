package node

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
)

// nodeStage returns the command `node stage`, which makes running nodes fetch the version of their next boot.
func nodeStage(env *cmdenv.Env) *cobra.Command {
	var f powerFlags
	c := &cobra.Command{
		Use:   "stage NODES",
		Short: "Have running nodes fetch ahead what they boot next",
		Long: `Have running nodes fetch ahead what they boot next, into memory: root and boot pack of that version are ready when they are asked to go there
(pando node reboot --method auto, or a rollout). Only what is gone to by soft-reboot is fetched ahead. pando node show tells what is staged.`,
		Example:           `  pando node stage @lab1 --stagger 1s`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: env.CompleteNodes,
	}
	fl := c.Flags()
	fl.DurationVar(&f.stagger, "stagger", 0*time.Second, "time from one node to the next")
	fl.IntVar(&f.parallel, "parallel", 16, "nodes that are dealt with at a time")
	env.WriteFlags(c, &f.dryRun)
	c.RunE = env.Call(func(ctx context.Context, cl *api.Client, args []string) error {
		if f.stagger < 0 || f.parallel < 1 {
			return exitcode.Usagef(
				"--stagger %s --parallel %d: want no time or more, and one node or more",
				f.stagger,
				f.parallel,
			)
		}
		return power(env, ctx, cl, args[0], api.PowerStage, f)
	})
	return c
}

// staged returns the version that a node has fetched for its next boot, "" for none.
func staged(n api.Node) string {
	if n.Status == nil {
		return ""
	}
	return string(n.Status.Staged)
}
