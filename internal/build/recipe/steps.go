package recipe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// step is a part of a recipe that changes the installed system.
type step struct {
	name string // for people
	key  string // identifies what the step does
	do   func(ctx context.Context, b *Maker) error
}

// steps returns the steps above the installed system in order: files, settings, each command. If there are too many
// commands, the last step has all remaining ones.
func (r *Recipe) steps() []step {
	var out []step
	if len(r.Files) > 0 {
		s := step{
			name: "files",
			do:   func(ctx context.Context, b *Maker) error { return b.putFiles(ctx, r.Files) },
		}
		for _, f := range r.Files {
			s.key = layerKey(s.key, f.Path, f.Mode, f.Content)
		}
		out = append(out, s)
	}
	add := func(name string, scripts ...string) {
		out = append(out, step{name, layerKey(scripts...), func(ctx context.Context, b *Maker) error {
			for _, s := range scripts {
				if err := b.inside(ctx, s, nil); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	if scripts := r.settings(); len(scripts) > 0 {
		add("locale, time zone, users, units", scripts...)
	}
	commands := r.Customize
	for len(commands) > 0 && len(out) < maxSteps-1 {
		first, _, _ := strings.Cut(commands[0], "\n")
		add(fmt.Sprintf("%.60s", first), commands[0])
		commands = commands[1:]
	}
	if len(commands) > 0 {
		add(fmt.Sprintf("%d more commands", len(commands)), slices.Clone(commands)...)
	}
	return out
}

// putFiles puts files into the tree.
func (b *Maker) putFiles(ctx context.Context, files []File) error {
	for _, f := range files {
		if err := b.putFile(ctx, f); err != nil {
			return fmt.Errorf("files: %s: %w", f.Path, err)
		}
	}
	return nil
}

// layerKey returns a digest of texts as part of a file name.
func layerKey(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d %s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
