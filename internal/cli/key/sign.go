package key

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/fleet"
	"pando/internal/image"
	"pando/internal/store"
	"pando/internal/storeflags"
)

// signScript is a script that is exported beside the manifests: it signs them with the program minisign.
const signScript = `#!/bin/sh
# Signs each manifest beside this file: sign.sh SECRET-KEY-FILE. Wants minisign, and asks for the key's password once for each.
set -eu
[ $# = 1 ] || { echo "usage: sign.sh SECRET-KEY-FILE" >&2; exit 2; }
for m in "$(dirname "$0")"/*.json; do
	minisign -S -s "$1" -m "$m" -x "${m%.json}.minisig" -t "pando manifest sha256:$(basename "$m" .json)"
done
`

func keyExport(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "export KEY DIR",
		Short: "Write what a key that is kept elsewhere has not signed, and a script that signs it there",
		Long: `Write the manifests that a key has not signed into a directory, with sign.sh, which signs them with minisign where the
key is kept. "pando key import DIR" takes the signatures. A manifest names all bytes of its version by their digests.
Works on the machine of the server.`,
		Example: `  pando key export vault /media/usb/to-sign
  sh /media/usb/to-sign/sign.sh ~/.minisign/minisign.key    # where the key is
  pando key import /media/usb/to-sign`,
		Args: cobra.ExactArgs(2),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			if env.Server != "" {
				return exitcode.WithHint(
					exitcode.Usagef("key export: works on the machine of the server, not through --server"),
					"run it there",
				)
			}
			k, err := trusted(ctx, c, args[0])
			if err != nil {
				return err
			}
			dir, err := storeflags.OpenDir(ctx, env.Data)
			if err != nil {
				return err
			}
			n, err := exportManifests(dir, k.Public, args[1])
			if err != nil {
				return err
			}
			env.Printf("%d manifests without a signature of key %s (%s) are in %s\n", n, k.Name, k.ID, args[1])
			return nil
		}),
	}
}

// exportManifests writes the manifests that a key has not signed.
func exportManifests(from *store.Dir, public, to string) (n int, err error) {
	versions, err := from.Versions()
	if err == nil {
		err = os.MkdirAll(to, 0o755)
	}
	if err != nil {
		return 0, err
	}
	for _, d := range versions {
		v, err := from.GetVersion(d)
		if err != nil {
			return n, err
		}
		if len(image.Signers(v.Manifest, v.Signature, []string{public})) > 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(to, strings.TrimPrefix(string(d), "sha256:")+".json"), v.Manifest,
			0o644); err != nil {
			return n, err
		}
		n++
	}
	return n, os.WriteFile(filepath.Join(to, "sign.sh"), []byte(signScript), 0o755)
}

func keyImport(env *cmdenv.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "import DIR",
		Short: "Take signatures that were made where a key is kept",
		Args:  cobra.ExactArgs(1),
		RunE: env.Call(func(ctx context.Context, c *api.Client, args []string) error {
			files, err := filepath.Glob(filepath.Join(args[0], "*.minisig"))
			if err == nil && len(files) == 0 {
				err = exitcode.WithHint(
					fmt.Errorf("%s has no signatures (*.minisig)", args[0]),
					"run its sign.sh where the key is kept",
				)
			}
			if err != nil {
				return err
			}
			var errs []error
			for _, f := range files {
				text, err := os.ReadFile(f)
				if err != nil {
					return err
				}
				version := fleet.Digest("sha256:" + strings.TrimSuffix(filepath.Base(f), ".minisig"))
				k, err := c.AddSignature(ctx, api.SignatureAdd{Version: version, Signature: string(text)})
				if err != nil {
					errs = append(errs, err)
					continue
				}
				env.Printf("%s signed by key %s\n", version.Short(), k.Name)
			}
			return errors.Join(errs...)
		}),
	}
}
