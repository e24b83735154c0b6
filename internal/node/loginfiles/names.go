package loginfiles

// Directories that are searched for programs and libraries.
var (
	programDirs = []string{"/usr/sbin/", "/usr/bin/", "/usr/lib/systemd/", "/usr/lib/openssh/", "/usr/libexec/openssh/",
		"/sbin/", "/bin/"}
	libraryDirs = []string{"/usr/lib/*-linux-gnu*/", "/usr/lib64/", "/usr/lib/", "/lib64/", "/lib/",
		"/usr/lib/*-linux-gnu*/systemd/", "/usr/lib64/systemd/", "/usr/lib/systemd/"}
)

// The lists are in order of importance, because the memory is bounded: first the programs and services of a login,
// then PAM's and NSS's modules (reader.modules), the shells of accounts, the small files and locales, then tools.
var (
	loginPrograms = []string{"sshd", "sshd-session", "sshd-auth", "login", "agetty", "sulogin", "bash", "sh",
		"systemd", "systemd-executor", "systemd-logind", "systemd-journald", "dbus-daemon", "dbus-broker",
		"systemd-user-runtime-dir", "systemd-tmpfiles", "unix_chkpwd"}
	smallFiles = []string{
		"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/nsswitch.conf", "/etc/ld.so.cache",
		"/etc/ld.so.preload", "/etc/login.defs", "/etc/environment", "/etc/profile", "/etc/bash*", "/etc/inputrc",
		"/etc/shells", "/etc/securetty", "/etc/motd", "/etc/issue*", "/etc/hosts*", "/etc/host.conf",
		"/etc/resolv.conf", "/etc/gai.conf", "/etc/localtime", "/etc/locale.*", "/etc/default/locale",
		"/etc/machine-id", "/etc/pam.conf", "/etc/pam.d/*", "/usr/lib/pam.d/*", "/etc/security/*",
		"/etc/security/*.d/*", "/etc/ssh/*", "/etc/ssh/*.d/*", "/etc/profile.d/*", "/etc/update-motd.d/*",
		"/etc/environment.d/*", "/usr/lib/environment.d/*", "/etc/crypto-policies/back-ends/*",
		"/root/.bash*", "/root/.profile", "/root/.ssh/*", "/var/log/wtmp", "/var/log/btmp", "/var/log/lastlog",
		"/etc/systemd/user/*", "/usr/lib/systemd/user/*", "/usr/lib/systemd/user/*/*",
		"/usr/lib/systemd/user-*generators/*", "/usr/share/user-tmpfiles.d/*", "/usr/share/dbus-1/session.conf",
		"/usr/lib/locale/C.utf8/*", "/usr/lib/locale/C.utf8/*/*", "/usr/lib/*-linux-gnu*/gconv/gconv-modules.cache",
		"/usr/lib*/gconv/gconv-modules.cache", "/usr/share/zoneinfo/Etc/UTC", "/usr/share/locale/locale.alias",
		"/usr/share/bash-completion/bash_completion", "/etc/bash_completion.d/*",
	}
	terminals = []string{"linux", "vt[12]*0", "xterm*", "screen", "screen-256color", "tmux", "tmux-256color"}
	tools     = []string{"systemctl", "systemd-shutdown", "systemd-update-utmp", "reboot",
		"poweroff", "shutdown", "journalctl", "loginctl", "ps", "ip", "ls", "cat",
		"id", "uname", "df", "dmesg", "mount", "umount", "kill", "sleep", "date", "grep", "tail", "head", "less",
		"free", "uptime", "hostname", "env", "rm", "cp", "mv", "mkdir", "touch", "ln", "stat", "readlink", "echo",
		"sync", "tty", "stty", "who", "whoami", "sed", "sort", "wc", "top", "ss", "ping", "su", "sudo", "pgrep",
		"chmod", "chown", "du", "mesg", "run-parts", "lesspipe", "dircolors", "basename", "dirname", "cut", "tr"}
)

// shellFiles has what shells open when they start, besides libraries that they are linked with. For bash and dash it
// is in smallFiles.
var shellFiles = map[string][]string{
	"zsh": {"/etc/zsh*", "/etc/zsh/*", "/root/.z*", "/usr/lib/*-linux-gnu*/zsh/*/zsh/*.so",
		"/usr/lib64/zsh/*/zsh/*.so", "/usr/lib/zsh/*/zsh/*.so"},
	"fish": {"/etc/fish/*", "/etc/fish/conf.d/*", "/root/.config/fish/*", "/usr/share/fish/*",
		"/usr/share/fish/vendor_conf.d/*", "/usr/share/fish/functions/*"},
}
