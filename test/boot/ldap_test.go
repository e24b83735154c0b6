package boot

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pando/internal/fleet"
	"pando/internal/testkit"
)

// entries are the content of the directory: one person, who is in two groups.
const entries = `dn: dc=example,dc=org
objectClass: dcObject
objectClass: organization
dc: example
o: Example

dn: uid=ldapuser,dc=example,dc=org
objectClass: inetOrgPerson
objectClass: posixAccount
uid: ldapuser
cn: Somebody
sn: Somebody
uidNumber: 7001
gidNumber: 7000
homeDirectory: /home/ldapuser
userPassword: open sesame

dn: cn=people,dc=example,dc=org
objectClass: posixGroup
cn: people
gidNumber: 7000

dn: cn=team,dc=example,dc=org
objectClass: posixGroup
cn: team
gidNumber: 7002
memberUid: ldapuser
`

// The files of docs/ldap work unchanged: an image by its recipe, with its config files, knows the users of a directory,
// with their groups and passwords.
func TestRealUsersFromADirectory(t *testing.T) {
	needFull(t)
	if _, err := exec.LookPath("slapd"); err != nil {
		t.Skipf("no directory to ask: %v", err)
	}
	const docs = "../../docs/ldap"
	data, err := withImages(t.Context(), "ldap", base, map[string]string{"lab": filepath.Join(docs, "lab.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	s := newSiteIn(t, newNet(t), data, "own")
	s.group("lab")
	ldap, err := testkit.StartLDAP(t.Context(), s.net, filepath.Join(s.dir, "ldap"), "dc=example,dc=org", entries)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { logError(t, ldap.Close()) })
	example := filepath.Join(s.dir, "example")
	if err := os.CopyFS(example, os.DirFS(docs)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(example, "ca.pem"), ldap.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	apply := exec.Command(
		filepath.Join(binDir, "pando"),
		"--data",
		s.Config.Data,
		"apply",
		"--yes",
		"-f",
		filepath.Join(example, "fleet.yaml"),
	)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	n := node{
		name:     "pc007",
		mac:      fleet.MAC{0x52, 0x54, 0, 26, 0, 7},
		firmware: testkit.BIOS,
		group:    "lab",
		memory:   1024,
	}
	s.announce(n)
	m, booted := s.powerOn(n)
	s.waitUp(n, m)
	booted()
	g := s.shell(n)
	s.run(g, "for i in $(seq 60); do getent passwd ldapuser > /dev/null && break; sleep 1; done")
	got := strings.TrimSpace(s.run(g, "getent passwd ldapuser; id ldapuser; getent passwd nobody-else || echo nobody"))
	if got != "ldapuser:*:7001:7000:Somebody:/home/ldapuser:/bin/bash\nuid=7001(ldapuser) gid=7000(people) "+
		"groups=7000(people),7002(team)\nnobody" {
		t.Errorf(
			"%s\n%s",
			got,
			s.run(g, "journalctl -u sssd --no-pager | tail -20; cat /etc/sssd/sssd.conf /etc/nsswitch.conf"),
		)
	}
	s.run(g, "adduser --quiet --disabled-password --gecos '' local")
	// su asks every user but root for a password
	for password, want := range map[string]bool{"open sesame": true, "close sesame": false} {
		out := strings.TrimSpace(
			s.run(
				g,
				"echo '"+password+"' | setpriv --reuid=local --regid=local --clear-groups su ldapuser -c 'id -un' "+
					"2>&1 || true",
			),
		)
		if strings.HasSuffix(out, "ldapuser") != want {
			t.Errorf("with %q: %s", password, out)
		}
	}
	s.healthy(g)
	s.powerOff(m)
}
