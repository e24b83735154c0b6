package recipe

import (
	"fmt"
	"strings"
)

// sources returns the repository in the deb822 form of sources.list(5). It includes the key, so that the key is
// trusted for this repository only.
func (p Repository) sources(r *Recipe) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Types: deb\nURIs: %s\nSuites: %s\n", p.Address, strings.Join(p.Suites, " "))
	if len(p.Components) > 0 {
		fmt.Fprintf(&b, "Components: %s\n", strings.Join(p.Components, " "))
	}
	architectures := p.Architectures
	if len(architectures) == 0 {
		architectures = []string{r.Architecture}
	}
	fmt.Fprintf(&b, "Architectures: %s\nSigned-By:\n", strings.Join(architectures, " "))
	for line := range strings.Lines(p.Key) {
		if line = strings.TrimRight(line, " \t\r\n"); line == "" {
			line = "." // an empty line would end the stanza
		}
		b.WriteString(" " + line + "\n")
	}
	return b.String()
}

// settings returns the shell commands for locale, time zone, users and units, in this order. They run as root in the
// tree after its files are written and before the recipe's own commands.
func (r *Recipe) settings() []string {
	var out []string
	if r.Locale != "" {
		if !strings.HasPrefix(r.Locale, "C.") {
			out = append(out, fmt.Sprintf("echo '%s UTF-8' > /etc/locale.gen; locale-gen", r.Locale))
		}
		out = append(out, "update-locale LANG="+r.Locale)
	}
	if r.Timezone != "" {
		out = append(
			out,
			fmt.Sprintf(
				"test -e /usr/share/zoneinfo/%[1]s || { echo 'timezone %[1]s: there is no such file in "+
					"/usr/share/zoneinfo' >&2; exit 1; }; "+
					"ln -snf /usr/share/zoneinfo/%[1]s /etc/localtime; echo %[1]s > /etc/timezone",
				r.Timezone,
			),
		)
	}
	for _, u := range r.Users {
		out = append(out, u.script())
	}
	for _, s := range []struct {
		verb  string
		units []string
	}{{"enable", r.Units.Enable}, {"disable", r.Units.Disable}, {"mask", r.Units.Mask}} {
		if len(s.units) > 0 {
			quoted := make([]string, len(s.units))
			for i, u := range s.units {
				quoted[i] = shellQuote(u)
			}
			out = append(out, "systemctl "+s.verb+" "+strings.Join(quoted, " "))
		}
	}
	return out
}

// script returns the commands that make the account, or change an existing one.
func (u User) script() string {
	shell := u.Shell
	if shell == "" {
		shell = "/bin/bash"
	}
	add := "useradd --create-home --shell " + shell
	if u.UID > 0 {
		add += fmt.Sprintf(" --uid %d", u.UID)
	}
	if u.Comment != "" {
		add += " --comment " + shellQuote(u.Comment)
	}
	lines := []string{fmt.Sprintf("if ! id -u %[1]s >/dev/null 2>&1; then %[2]s %[1]s; fi", u.Name, add)}
	if u.Shell != "" {
		lines = append(lines, fmt.Sprintf("usermod --shell %s %s", u.Shell, u.Name))
	}
	if len(u.Groups) > 0 {
		lines = append(lines, fmt.Sprintf("usermod --append --groups %s %s", strings.Join(u.Groups, ","), u.Name))
	}
	if u.PasswordHash != "" {
		lines = append(lines, fmt.Sprintf("usermod --password %s %s", shellQuote(u.PasswordHash), u.Name))
	}
	if len(u.SSHKeys) > 0 {
		lines = append(lines, u.keys()...)
	}
	return strings.Join(lines, "\n")
}

func (u User) keys() []string {
	quoted := make([]string, len(u.SSHKeys))
	for i, k := range u.SSHKeys {
		quoted[i] = shellQuote(k)
	}
	return []string{
		fmt.Sprintf(`home=$(getent passwd %s | cut -d: -f6); owner=%s:$(id -g %s)`, u.Name, u.Name, u.Name),
		`mkdir -p "$home/.ssh"`,
		fmt.Sprintf(`printf '%%s\n' %s > "$home/.ssh/authorized_keys"`, strings.Join(quoted, " ")),
		`chmod 700 "$home/.ssh"; chmod 600 "$home/.ssh/authorized_keys"; chown "$owner" "$home/.ssh" "$home/.ssh/authorized_keys"`,
	}
}
