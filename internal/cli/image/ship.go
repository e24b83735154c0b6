package image

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/output"
	"pando/internal/ship"
	"pando/internal/steps"
	"pando/internal/terminal"
)

// otherToken is the name of the environment variable with the token of the other server.
const otherToken = "PANDO_OTHER_TOKEN"

func imagePush(env *cmdenv.Env) *cobra.Command {
	var token string
	c := &cobra.Command{
		Use:   "push IMAGE[:TAG] DEST",
		Short: "Copy a version, with its name, to another server or to a directory",
		Long: `Copy a version of an image to another Pando server (HOST or https://HOST:8443) or to a directory (a path with a slash), such as a
USB stick's for a site without a network. Only what is missing there travels; broken off, the same command goes on.
The other server takes only what a key signed that it trusts.`,
		Example: `  pando image push lab:stable https://10.2.0.1:8443
  pando image push lab /media/stick/pando`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: env.CompleteImages,
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			to, done, err := otherPlace(args[1], token, true)
			if err != nil {
				return err
			}
			defer done()
			return shipVersions(
				env,
				ctx,
				"push",
				ship.Options{From: ship.Server{Client: c}, To: to, Ref: fleet.Ref(args[0])},
			)
		}),
	}
	c.Flags().
		StringVar(&token, "other-token", "", "token for the other server; better in the environment ("+otherToken+")")
	return env.ReadFlags(c)
}

func imagePull(env *cmdenv.Env) *cobra.Command {
	var token string
	c := &cobra.Command{
		Use:   "pull SRC IMAGE[:TAG]",
		Short: "Copy a version, with its name, from another server or from a directory",
		Long: `Copy a version of an image from another Pando server or from a directory that ` +
			"`pando image push`" + ` wrote. Only what is
missing travels; broken off, the same command goes on. This server takes only what a key signed that it trusts.`,
		Example: `  pando image pull /media/stick/pando lab:stable
  pando image pull https://10.2.0.1:8443 lab`,
		Args: cobra.ExactArgs(2),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			from, done, err := otherPlace(args[0], token, false)
			if err != nil {
				return err
			}
			defer done()
			return shipVersions(
				env,
				ctx,
				"pull",
				ship.Options{From: from, To: ship.Server{Client: c}, Ref: fleet.Ref(args[1])},
			)
		}),
	}
	c.Flags().
		StringVar(&token, "other-token", "", "token for the other server; better in the environment ("+otherToken+")")
	return env.ReadFlags(c)
}

// otherPlace opens the other side of a copy: a directory if the argument contains a slash, otherwise a server.
func otherPlace(where, token string, create bool) (p ship.Place, done func(), err error) {
	if strings.Contains(where, "/") && !strings.Contains(where, "://") || where == "." {
		d, err := ship.OpenDirectory(where, create)
		if err != nil {
			return nil, nil, exitcode.WithHint(err, "a directory that `pando image push` wrote, or another "+
				"server's address")
		}
		return d, func() {}, nil
	}
	if token == "" {
		token = os.Getenv(otherToken)
	}
	if token == "" {
		return nil, nil, exitcode.WithHint(
			exitcode.Usagef("server %s: no token", where),
			"make one there with `pando token create NAME`, then set "+otherToken+" or pass --other-token; a "+
				"directory has a slash in its name",
		)
	}
	c, err := api.OverTLS(where, token)
	if err != nil {
		return nil, nil, exitcode.AsUsage(err)
	}
	return ship.Server{Client: c}, c.Close, nil
}

// shipped is what `image push` and `image pull` print with --json.
type shipped struct {
	Image   string       `json:"image"`
	Tags    []string     `json:"tags"`
	Kept    []string     `json:"tags_kept,omitempty"` // of these tags, those that did not move
	Version fleet.Digest `json:"version"`
	Objects int          `json:"objects"` // of the version and its boot packs
	Bytes   int64        `json:"bytes"`
	Sent    int          `json:"sent_objects"` // objects that the other side lacked
	Moved   int64        `json:"sent_bytes"`
}

func shipVersions(env *cmdenv.Env, ctx context.Context, verb string, o ship.Options) error {
	out := env.Out
	if env.JSON {
		out = env.Err
	}
	p, begin := terminal.NewProgress(out, env.Now, nil), env.Now()
	o.Progress = func(done, total int64) {
		p.Show(steps.Progress{Step: verb, Done: done, Total: total, Unit: "bytes"})
	}
	r, err := ship.Copy(ctx, o)
	p.End(err == nil)
	if err != nil {
		if ctx.Err() != nil || exitcode.HintOf(err) != "" {
			return err
		}
		return exitcode.WithHint(err, "what arrived stays for a day; the same command goes on")
	}
	if env.JSON {
		return output.JSON(env.Out, shipped{r.Name, r.Tags, r.Kept, r.Version, r.Objects, r.Bytes, r.Sent, r.Moved})
	}
	took := env.Now().Sub(begin)
	rate := ""
	if s := took.Seconds(); r.Moved > 0 && s > 0 {
		rate = fmt.Sprintf(" at %s/s", output.Size(int64(float64(r.Moved)/s)))
	}
	output.Fields(
		env.Out,
		"image",
		strings.TrimSuffix(r.Name+":"+strings.Join(r.Tags, ","), ":"),
		"version",
		string(r.Version),
		"to",
		o.To.Name(),
		"sent",
		fmt.Sprintf("%s in %d objects%s", output.Size(r.Moved), r.Sent, rate),
		"was there",
		fmt.Sprintf("%s in %d objects", output.Size(r.Bytes-r.Moved), r.Objects-r.Sent),
		"took",
		output.Span(took),
	)
	for _, tag := range r.Kept {
		env.Printf("%s:%s stays as it was there, since nodes have it; "+
			"this version is theirs by: pando image tag %s@%s %s\n", r.Name, tag, r.Name, r.Version.Short(), tag)
	}
	return nil
}
