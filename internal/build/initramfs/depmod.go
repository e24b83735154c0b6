package initramfs

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// readDepmod reads modules.dep, modules.alias and modules.softdep as depmod(8) writes them.
func (t *moduleTree) readDepmod() error {
	err := t.lines("modules.dep", func(line string) error {
		file, deps, ok := strings.Cut(line, ":")
		if !ok {
			return fmt.Errorf("line %q has no colon", line)
		}
		m := &moduleEntry{path: file}
		for _, d := range strings.Fields(deps) {
			m.deps = append(m.deps, moduleName(d))
		}
		t.modules[moduleName(file)] = m
		return nil
	})
	if err != nil {
		return err
	}
	err = t.lines("modules.alias", func(line string) error {
		f := strings.Fields(line)
		if m := t.entry(f, "alias"); m != nil {
			m.aliases = append(m.aliases, f[1])
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.lines("modules.softdep", func(line string) error {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "softdep" && t.modules[f[1]] != nil {
			m := t.modules[f[1]]
			m.softPre = append(m.softPre, softPre(f[2:])...)
		}
		return nil
	})
}

// entry returns the module of a line "alias PATTERN NAME", or nil if it is another line or an unknown module.
func (t *moduleTree) entry(f []string, keyword string) *moduleEntry {
	if len(f) != 3 || f[0] != keyword {
		return nil
	}
	return t.modules[strings.ReplaceAll(f[2], "-", "_")]
}

// softPre returns the words after "pre:" of a softdep line. A boot does not need those after "post:".
func softPre(words []string) []string {
	var out []string
	pre := false
	for _, w := range words {
		switch w {
		case "pre:":
			pre = true
		case "post:":
			pre = false
		default:
			if pre {
				out = append(out, w)
			}
		}
	}
	return out
}

func (t *moduleTree) readBuiltin() error {
	err := t.lines("modules.builtin", func(line string) error {
		t.builtin[moduleName(line)] = true
		return nil
	})
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

func (t *moduleTree) lines(name string, each func(string) error) error {
	data, err := os.ReadFile(filepath.Join(t.dir, name))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := each(line); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// scan reads every module's own description, for a tree in which depmod never ran.
func (t *moduleTree) scan(ctx context.Context) error {
	err := filepath.WalkDir(t.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(d.Name(), ".ko") {
			return err
		}
		data, err := readModule(ctx, p)
		if err != nil {
			return err
		}
		info, err := parseModinfo(data)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		rel, err := filepath.Rel(t.dir, p)
		t.modules[moduleName(p)] = &moduleEntry{
			path:    rel,
			deps:    info.depends,
			softPre: info.softPre,
			aliases: info.aliases,
		}
		return err
	})
	if err == nil && len(t.modules) == 0 {
		err = fmt.Errorf("no modules in %s", t.dir)
	}
	return err
}
