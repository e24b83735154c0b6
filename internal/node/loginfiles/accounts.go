package loginfiles

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// shells reads the login shells of root and of people, whose user IDs have four digits or more, with what these shells
// open when they start. A shell outside /bin and /usr may be on a network file system, which may hang: it is not read.
func (k *reader) shells() {
	accounts, _ := os.ReadFile(k.root + "/etc/passwd") // the file may not exist
	for line := range strings.Lines(string(accounts)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 7 || fields[2] != "0" && len(fields[2]) < 4 {
			continue
		}
		dir, name := filepath.Split(fields[6])
		if name == "nologin" || name == "false" ||
			!strings.HasPrefix(dir, "/bin/") && !strings.HasPrefix(dir, "/usr/") {
			continue
		}
		k.file(k.root + fields[6])
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
		k.note = fmt.Sprintf("%s has %d bytes, room is left for %d: without a server a login may wait for its locale, "+
			"unless the image has fewer locales\n", path, info.Size(), free)
		return
	}
	k.file(k.root + path)
}
