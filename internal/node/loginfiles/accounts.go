package loginfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// firstUser is the lowest user ID of people (UID_MIN of login.defs(5)).
const firstUser = 1000

// shells reads the login shells of root and of people, with the files that these shells open when they start. A shell
// outside /bin and /usr may be on a network file system, which may hang: it is not read.
func (k *reader) shells() {
	accounts, _ := os.ReadFile(k.root + "/etc/passwd") // the file may not exist
	for line := range strings.Lines(string(accounts)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 7 {
			continue
		}
		uid, err := strconv.Atoi(fields[2])
		shell := filepath.Clean(fields[6])
		name := filepath.Base(shell)
		if err != nil || uid != 0 && uid < firstUser || name == "nologin" || name == "false" ||
			!strings.HasPrefix(shell, "/bin/") && !strings.HasPrefix(shell, "/usr/") {
			continue
		}
		k.file(k.root + shell)
		for _, pattern := range shellFiles[name] {
			k.glob(pattern)
		}
	}
}

// locales reads what setlocale(3) and gettext(3) read for the system's language.
func (k *reader) locales() {
	for _, file := range []string{"/etc/default/locale", "/etc/locale.conf"} {
		for _, word := range words(k.root + file) {
			name, value, _ := strings.Cut(word, "=")
			if lang, _, _ := strings.Cut(strings.Trim(value, `"'`), "."); name == "LANG" && lang != "" &&
				!strings.Contains(lang, "/") {
				k.language(lang)
			}
		}
	}
	k.archive("/usr/lib/locale/locale-archive")
}

// language reads the files of a language such as de_DE.
func (k *reader) language(lang string) {
	k.glob("/usr/lib/locale/" + lang + ".[uU]*/*")
	k.glob("/usr/lib/locale/" + lang + ".[uU]*/LC_MESSAGES/*")
	short, _, _ := strings.Cut(lang, "_")
	for _, program := range []string{"libc", "bash", "Linux-PAM", "util-linux", "coreutils"} {
		k.glob("/usr/share/locale/" + lang + "/LC_MESSAGES/" + program + ".mo")
		k.glob("/usr/share/locale/" + short + "/LC_MESSAGES/" + program + ".mo")
	}
}

// archive reads the archive of all locales if there is room for all of it. The kernel reads it by mmap(2), at places
// that depend on the locale, so a part of it is of no use.
func (k *reader) archive(path string) {
	info, err := os.Stat(k.root + path)
	if err != nil {
		return
	}
	if free := k.free(); info.Size() > free {
		k.notes = append(k.notes, fmt.Sprintf("%s of %.1f MB is not held, because %.1f MB are left: without a server "+
			"a login may wait for it unless its locale is C; let the image have only the locales that it needs", path,
			float64(info.Size())/1e6, float64(free)/1e6))
		return
	}
	k.file(k.root + path)
}
