package fleet

import (
	"strings"
	"testing"
)

// TestKeyLines: a line of authorized_keys may be all that sshd(8) allows, and nothing else.
func TestKeyLines(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA teacher@lab"
	for line, good := range map[string]bool{
		key:                   true,
		"restrict,pty " + key: true,
		`from="10.0.0.0/8,*.lab",command="echo \"a b\" ssh-rsa",no-pty ` + key: true,
		`environment="A=b c" ` + key:                       true,
		"ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAy": true,
		"sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaC1lZDI1":  true,
		"-----BEGIN OPENSSH PRIVATE KEY-----":              false,
		`from="10.0.0.0/8 ` + key:                          false, // the quote has no end
		"restrict":                                         false,
		"restrict\n" + key:                                 false,
		"foo bar":                                          false,
		"foo " + key + "\x1b[2J":                           false,
		"x=y " + key:                                       false, // a value is in quotes
		",pty " + key:                                      false,
		"ssh-ed25519 nothing me@here":                      false,
		"# " + key:                                         true,
		"  # old":                                          true,
		"":                                                 true,
		" \t":                                              true,
		"  " + key:                                         true,
		"restrict\t" + key:                                 true,
		"no-pty,X11-forwarding \t" + strings.ReplaceAll(key, " ", "\t"): true,
	} {
		if (ValidKeyLine(line) == nil) != good {
			t.Errorf("%q is taken: %v", line, !good)
		}
	}
}

// TestUserKeyLines: keys of users have the same form, behind a name.
func TestUserKeyLines(t *testing.T) {
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA teacher@lab"
	for line, good := range map[string]bool{
		"alice " + key: true, "alice\t" + key: true, "alice restrict " + key: true, "# of the teachers": true, "": true,
		"alice": false, "alice # none": false, "alice foo bar": false,
	} {
		if err := validUsers(Keeping{UserKeys: &[]string{line}}); (err == nil) != good {
			t.Errorf("%q: %v", line, err)
		}
	}
	if got := (Keeping{UserKeys: &[]string{"# old", "alice " + key}}).UserKeyList(); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
