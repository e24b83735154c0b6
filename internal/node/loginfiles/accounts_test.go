package loginfiles

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pando/internal/blockapi"
)

// add writes files to a root.
func add(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(root+name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// The shells of root and of people are read with their libraries and what they open, then the system's language, and
// tools last. Shells of system accounts and shells that let nobody in are not read.
func TestShellsAndLocaleOfALogin(t *testing.T) {
	root, bash := tree(t)
	program, err := os.ReadFile(bash)
	if err != nil {
		t.Fatal(err)
	}
	const modules = "/usr/lib/x86_64-linux-gnu/zsh/5.9/zsh/"
	add(t, root, map[string]string{
		"/etc/passwd": "root:x:0:0::/root:/usr/bin/zsh\nbackup:x:34:34::/:/usr/bin/ksh\nbroken\n" +
			"ann:x:1000:1000::/home/ann:/usr/bin/fish\nbob:x:1001:1001::/home/bob:/home/bob/sh\n" +
			"guest:x:1002:1002::/:/usr/sbin/nologin\n",
		"/usr/bin/zsh": strings.Replace(string(program), "libc.so.6", "libz.so.6", 1), "/usr/bin/ksh": "ksh",
		"/usr/lib/x86_64-linux-gnu/libz.so.6": "of zsh alone",
		"/usr/bin/fish":                       "fish", "/home/bob/sh": "sh", "/usr/sbin/nologin": "nologin",
		"/etc/zsh/zshrc": "rc", modules + "zle.so": "zle", "/usr/share/fish/config.fish": "config",
		"/etc/profile.d/site.sh": "site", "/etc/bash.bashrc": "rc", "/etc/default/locale": "LANG=\"de_DE.UTF-8\"\n",
		"/usr/share/bash-completion/bash_completion":   "completion",
		"/usr/lib/locale/locale-archive":               strings.Repeat("de_DE", 1000),
		"/usr/lib/locale/de_DE.utf8/LC_CTYPE":          "ctype",
		"/usr/share/locale/de/LC_MESSAGES/bash.mo":     "Befehl",
		"/usr/share/locale/de/LC_MESSAGES/gimp20.mo":   "Bild",
		"/usr/lib/locale/fr_FR.utf8/LC_CTYPE":          "ctype",
		"/lib/terminfo/l/linux":                        "linux",
		"/lib/terminfo/v/vt220":                        "vt220",
		"/lib/terminfo/x/xterm":                        "xterm",
		"/lib/terminfo/x/xterm-256color":               "xterm",
		"/lib/terminfo/s/screen":                       "screen",
		"/usr/share/terminfo/t/tmux":                   "tmux",
		"/usr/share/terminfo/t/tmux-256color":          "tmux",
		"/usr/share/terminfo/t/teletec":                "teletec",
		"/usr/share/bash-completion/completions/large": "completion",
	})
	k, names := kept(root)
	for _, want := range []string{"/usr/bin/zsh", "/usr/lib/x86_64-linux-gnu/libz.so.6", "/etc/zsh/zshrc",
		modules + "zle.so", "/usr/bin/fish", "/usr/share/fish/config.fish", "/etc/profile.d/site.sh",
		"/etc/bash.bashrc", "/usr/share/bash-completion/bash_completion", "/usr/lib/locale/de_DE.utf8/LC_CTYPE",
		"/usr/share/locale/de/LC_MESSAGES/bash.mo", "/usr/lib/locale/locale-archive", "/lib/terminfo/l/linux",
		"/lib/terminfo/v/vt220", "/lib/terminfo/x/xterm", "/lib/terminfo/x/xterm-256color", "/lib/terminfo/s/screen",
		"/usr/share/terminfo/t/tmux", "/usr/share/terminfo/t/tmux-256color"} {
		if n := slices.Index(names, want); n < 0 || n > slices.Index(names, "/usr/bin/ls") {
			t.Errorf("%s is not read before the tools: %q", want, names)
		}
	}
	for _, name := range names {
		for _, not := range []string{"ksh", "nologin", "/home/", "gimp", "fr_FR", "teletec", "large"} {
			if strings.Contains(name, not) {
				t.Errorf("%s is read", name)
			}
		}
	}
	if k.note != "" {
		t.Errorf("left out: %q", k.note)
	}
}

// fullDaemon is a block daemon with one megabyte left.
type fullDaemon struct{ daemon }

func (d *fullDaemon) Hold(context.Context, bool) (blockapi.Held, error) {
	return blockapi.Held{Bytes: blockapi.HoldMost - 1<<20, Left: 1}, nil
}

// An archive of locales without room is left out as a whole, and the log says so.
func TestLocalesWithoutRoom(t *testing.T) {
	root := t.TempDir()
	const archive = "/usr/lib/locale/locale-archive"
	for size, want := range map[int]bool{1 << 20: true, 1<<20 + 1: false} {
		add(t, root, map[string]string{archive: strings.Repeat("x", size)})
		var log bytes.Buffer
		read := false
		err := hold(t.Context(), &fullDaemon{}, &log, func(k *reader) {
			k.root, k.pause = root, func(int64) bool { return true }
			k.read = func(*os.File, int64) error { read = true; return nil }
			k.all()
		})
		if err != nil || read != want || strings.Contains(log.String(), archive) == want {
			t.Errorf("of %d bytes: read %v, %v; the log says %q", size, read, err, log.String())
		}
		if read && !strings.Contains(log.String(), "2 objects have no room") {
			t.Errorf("the log says %q", log.String())
		}
	}
}
