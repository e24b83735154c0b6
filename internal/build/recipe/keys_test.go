package recipe

import "testing"

// TestAuthorizedKeysOfRecipe: a line of authorized_keys may have the options of sshd(8).
func TestAuthorizedKeysOfRecipe(t *testing.T) {
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
		"# " + key:                                         false,
	} {
		if authorizedKey(line) != good {
			t.Errorf("%q is taken: %v", line, !good)
		}
	}
}
