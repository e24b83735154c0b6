package key

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/identity"
	"pando/internal/output"
)

// Command returns the command `key`.
func Command(env *cmdenv.Env) *cobra.Command {
	return cmdenv.Noun(
		"key",
		"Keys of this site: who may sign what nodes boot",
		keyShow(env),
		keyList(env),
		keyCreate(env),
		keyRotate(env),
		keyRevoke(env),
		keyExport(env),
		keyImport(env),
	)
}

func keyShow(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "show",
		Short: "Show the public keys that nodes trust",
		Args:  cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			k, err := c.Keys(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, k)
			}
			var also []string
			for _, s := range k.Signing {
				if s.State == api.KeyTrusted {
					also = append(also, s.Public)
				}
			}
			output.Fields(
				env.Out,
				"site (signs images)",
				k.Site,
				"trusted beside it",
				strings.Join(also, " "),
				"server (control port)",
				k.Server,
			)
			return nil
		}),
	})
}

func keyList(env *cmdenv.Env) *cobra.Command {
	return env.ReadFlags(&cobra.Command{
		Use:   "list",
		Short: "List the keys that sign versions, or did",
		Long: `List the keys that sign versions, or did. VERSIONS counts what a key signed in the store, ONLY what no other
trusted key signed: that does not boot any more when the key is revoked.`,
		Args: cobra.NoArgs,
		RunE: env.Call(func(ctx context.Context, c *api.Client, _ []string) error {
			k, err := c.Keys(ctx)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, k)
			}
			t := output.NewTable(env.Out, "KEY", "ID", "STATE", "KEPT", "CREATED", "REVOKED", "VERSIONS", "ONLY")
			for _, s := range k.Signing {
				t.Row(
					s.Name,
					s.ID,
					s.State,
					kept(s),
					output.Time(s.Created),
					output.Time(s.Revoked),
					strconv.Itoa(s.Versions),
					strconv.Itoa(s.Only),
				)
			}
			t.Flush()
			return nil
		}),
	})
}

// kept describes where the private key is.
func kept(k api.Key) string {
	switch {
	case k.Here:
		return "here"
	case k.State == api.KeyRevoked:
		return ""
	}
	return "elsewhere"
}

func keyCreate(env *cmdenv.Env) *cobra.Command {
	var public string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make another key that nodes trust from their next boot on",
		Long: `Make another key that nodes trust from their next boot on. What is here is signed with it beside the key that signs
now. With --public its secret half stays where it was made, say on a machine without a network with
"minisign -G": see "pando key export".`,
		Example: `  pando key create next
  pando key create vault --public minisign.pub`,
		Args: cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			text := public
			if b, err := os.ReadFile(public); err == nil {
				text = string(b)
			}
			k, err := c.CreateKey(ctx, api.KeyCreate{Name: args[0], Public: text})
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, k)
			}
			env.Printf("key %s (%s): nodes trust it from their next boot on\n", k.Name, k.Public)
			return nil
		}),
	}
	c.Flags().StringVar(&public, "public", "", "minisign public key, or its file; the secret half stays where it is")
	return env.ReadFlags(c)
}

func keyRotate(env *cmdenv.Env) *cobra.Command {
	var use api.KeyUse
	c := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Make a key the one that signs, and sign every version with it",
		Long: `Make a key the one that signs, a new one if there is none of that name, and sign every version in the store with it.
No version changes by it: a signature lies beside a version. The keys before it stay trusted, and sign too where
they are here: nodes that boot meanwhile, and boot media that know only these, go on. When all have moved, end the
trust in the old one with "pando key revoke". Interrupted, the same command goes on.`,
		Example: `  pando key rotate 2027
  pando key rotate vault --dry-run`,
		Args: cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			ch, err := c.RotateKey(ctx, args[0], use)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, ch)
			}
			switch {
			case use.DryRun:
				env.Printf("key %s has not signed %d versions\n", args[0], len(ch.Without))
			default:
				env.Printf(
					"key %s signs from now on; %d versions signed again, %d without its signature\n",
					ch.Key.Name,
					ch.Signed,
					len(ch.Without),
				)
			}
			printVersions(env, ch.Without)
			if len(ch.Without) > 0 && !use.DryRun && !ch.Key.Here {
				env.Printf(
					"it is kept elsewhere: `pando key export %s DIR` writes what is to be signed there\n",
					ch.Key.Name,
				)
			}
			nothingDone(env, use.DryRun)
			return nil
		}),
	}
	env.WriteFlags(c, &use.DryRun)
	return c
}

func keyRevoke(env *cmdenv.Env) *cobra.Command {
	var use api.KeyUse
	c := &cobra.Command{
		Use:   "revoke NAME",
		Short: "End the trust in a key, for good; what it alone signed does not boot any more",
		Long: `End the trust in a key, for good: its secret half is removed from this server, and nodes refuse what it alone
signed from their next boot on, also those that start from a boot medium made before. Nodes that run go on. A boot
medium that knows only this key has to be made again.`,
		Example: `  pando key revoke site --dry-run
  pando key revoke site`,
		Args: cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			ch, err := c.RevokeKey(ctx, args[0], use)
			if err != nil {
				return err
			}
			if env.JSON {
				return output.JSON(env.Out, ch)
			}
			env.Printf(
				"key %s %s: %d versions do not boot any more\n",
				ch.Key.Name,
				map[bool]string{true: "would be revoked", false: "revoked"}[use.DryRun],
				len(ch.Without),
			)
			printVersions(env, ch.Without)
			nothingDone(env, use.DryRun)
			return nil
		}),
	}
	c.Flags().BoolVar(&use.Force, "force", false, "also when groups or nodes want a version that does not boot then")
	env.WriteFlags(c, &use.DryRun)
	return c
}

func printVersions(env *cmdenv.Env, versions []api.KeyVersion) {
	for _, v := range versions {
		env.Printf("  %s  %s\n", v.Version, output.Few(v.InUse))
	}
}

func nothingDone(env *cmdenv.Env, dryRun bool) {
	if dryRun {
		env.Printf("nothing was done\n")
	}
}

// trusted finds a key of the site by its name.
func trusted(ctx context.Context, c *api.Client, name string) (api.Key, error) {
	k, err := c.Keys(ctx)
	if err != nil {
		return api.Key{}, err
	}
	for _, s := range k.Signing {
		if s.Name == name && s.State != api.KeyRevoked {
			return s, nil
		}
	}
	return api.Key{}, api.NewError(
		api.NotFound,
		"key "+name+": "+identity.ErrNoKey.Error(),
		"`pando key list` shows what there is",
	)
}
