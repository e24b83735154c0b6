package recipe

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"pando/internal/fleet"
)

// Repository is a Debian repository besides the archive. Its key must sign its packages.
type Repository struct {
	Name          string   `yaml:"name"`          // file name below /etc/apt/sources.list.d
	Address       string   `yaml:"address"`       // URL
	Suites        []string `yaml:"suites"`        // none: the recipe's suite
	Components    []string `yaml:"components"`    // none: main, or no components if a suite ends in a slash
	Architectures []string `yaml:"architectures"` // none: those of the tree
	Key           string   `yaml:"key"`           // the text of its OpenPGP key, in ASCII armor
}

// User is an account of the tree.
type User struct {
	Name         string   `yaml:"name"`
	UID          int      `yaml:"uid"`    // 0: the next free UID
	Groups       []string `yaml:"groups"` // besides the user's own group
	Shell        string   `yaml:"shell"`  // "": /bin/bash for a new account
	Comment      string   `yaml:"comment"`
	SSHKeys      []string `yaml:"ssh_keys"`      // lines of authorized_keys
	PasswordHash string   `yaml:"password_hash"` // as in shadow(5); "": the account has no password
}

// Units are systemd units whose state a recipe sets.
type Units struct {
	Enable  []string `yaml:"enable" json:",omitempty"`
	Disable []string `yaml:"disable" json:",omitempty"`
	Mask    []string `yaml:"mask" json:",omitempty"`
}

// Directory and suffix of apt's repository files.
const (
	sourcesDir    = "/etc/apt/sources.list.d"
	sourcesSuffix = ".sources"
)

const keyBegin, keyEnd = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"

var (
	suiteWord   = regexp.MustCompile(`^[A-Za-z0-9./][A-Za-z0-9./_+-]*$`)
	accountWord = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,30}$`)
	unitWord    = regexp.MustCompile(
		`^[A-Za-z0-9:_.\\@-]+\.(service|socket|timer|target|path|mount|automount|swap|slice|scope|device)$`,
	)
	kernelWord   = regexp.MustCompile(`^[0-9][A-Za-z0-9._+~-]*$`)
	localeWord   = regexp.MustCompile(`^(C|[a-z]{2,3}_[A-Z]{2})\.UTF-8$`)
	timezoneWord = regexp.MustCompile(`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`)
	hashWord     = regexp.MustCompile(`^\$[a-z0-9]+\$[./A-Za-z0-9$=,]{8,}$`)
)

// validateMore checks the keys other than packages and files, and adds the packages that they need.
func (r *Recipe) validateMore() error {
	if r.Kernel != "" {
		r.Packages = append(
			slices.DeleteFunc(r.Packages, func(p string) bool { return strings.HasPrefix(p, "linux-image-") }),
			r.Kernel,
		)
	}
	if r.KernelRelease != "" && !kernelWord.MatchString(r.KernelRelease) {
		return r.fail("kernel_release: %q; want one as uname -r says it, such as 6.12.48+deb13-amd64", r.KernelRelease)
	}
	if r.Locale != "" {
		if !localeWord.MatchString(r.Locale) {
			return r.fail("locale: %q; want one such as de_DE.UTF-8, or C.UTF-8", r.Locale)
		}
		r.Packages = append(r.Packages, "locales")
	}
	if r.Timezone != "" {
		if !timezoneWord.MatchString(r.Timezone) {
			return r.fail("timezone: %q; want one such as Europe/Berlin", r.Timezone)
		}
		r.Packages = append(r.Packages, "tzdata")
	}
	for _, unit := range slices.Concat(r.Units.Enable, r.Units.Disable, r.Units.Mask) {
		if !unitWord.MatchString(unit) || strings.HasPrefix(unit, "-") {
			return r.fail("units: %q is not the name of a unit, such as ssh.service", unit)
		}
	}
	if err := r.validateRepositories(); err != nil {
		return err
	}
	return r.validateUsers()
}

func (r *Recipe) validateRepositories() error {
	names := map[string]bool{}
	for i := range r.Repositories {
		p := &r.Repositories[i]
		if !recipeWord.MatchString(p.Name) || names[p.Name] {
			return r.fail("repositories: name %q: want one of its own, of lower case letters, digits and . + -", p.Name)
		}
		names[p.Name] = true
		if u, err := url.Parse(p.Address); err != nil || !slices.Contains([]string{"http", "https"}, u.Scheme) ||
			strings.ContainsAny(p.Address, " \t\n") {
			return r.fail(
				"repositories: %s: address %q: want a URL such as https://example.org/debian",
				p.Name,
				p.Address,
			)
		}
		if p.Key = strings.TrimSpace(p.Key); !strings.HasPrefix(p.Key, keyBegin) || !strings.HasSuffix(p.Key, keyEnd) {
			return r.fail(
				"repositories: %s: key: want the text of its key, from %s to %s; nothing is taken without one",
				p.Name,
				keyBegin,
				keyEnd,
			)
		}
		if len(p.Suites) == 0 && r.Suite != "" {
			p.Suites = []string{r.Suite}
		}
		if len(p.Suites) == 0 {
			return r.fail(
				"repositories: %s: suites: want at least one, since the recipe has no suite of its own",
				p.Name,
			)
		}
		for _, w := range slices.Concat(p.Suites, p.Components, p.Architectures) {
			if !suiteWord.MatchString(w) {
				return r.fail("repositories: %s: %q is not a suite, component or architecture", p.Name, w)
			}
		}
		if len(p.Components) == 0 && !strings.HasSuffix(p.Suites[0], "/") {
			p.Components = []string{"main"}
		}
	}
	return nil
}

func (r *Recipe) validateUsers() error {
	names := map[string]bool{}
	for _, u := range r.Users {
		if !accountWord.MatchString(u.Name) || names[u.Name] {
			return r.fail("users: name %q: want one of its own, of lower case letters, digits, _ and -", u.Name)
		}
		names[u.Name] = true
		if u.UID < 0 || u.UID > 1<<31-2 {
			return r.fail("users: %s: uid %d: want a number from 1 on", u.Name, u.UID)
		}
		for _, g := range u.Groups {
			if !accountWord.MatchString(g) {
				return r.fail("users: %s: %q is not the name of a group", u.Name, g)
			}
		}
		if u.Shell != "" && !recipePath.MatchString(u.Shell) {
			return r.fail("users: %s: shell %q: want an absolute path", u.Name, u.Shell)
		}
		if strings.ContainsAny(u.Comment, ":\n\x00") {
			return r.fail("users: %s: comment %q has a colon or a line end", u.Name, u.Comment)
		}
		if u.PasswordHash != "" && !hashWord.MatchString(u.PasswordHash) {
			return r.fail(
				"users: %s: password_hash: want a hash as in /etc/shadow, never the password; `mkpasswd` and "+
					"`openssl passwd -6` make one",
				u.Name,
			)
		}
		for _, k := range u.SSHKeys {
			if err := fleet.ValidKeyLine(k); err != nil {
				return r.fail("users: %s: ssh_keys: %v", u.Name, err)
			}
		}
	}
	return nil
}
