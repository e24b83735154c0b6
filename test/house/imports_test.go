package house

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// rule says what one package below internal, or with STOREY/* each subpackage of a package, may import.
type rule struct {
	name string
	may  []string
}

// find returns the index of a package's rule, -1 if it has none. A package's own rule takes precedence.
func find(rules []rule, name string) int {
	i := slices.IndexFunc(rules, func(r rule) bool { return r.name == name })
	if storey, _, ok := strings.Cut(name, "/"); ok && i < 0 {
		i = slices.IndexFunc(rules, func(r rule) bool { return r.name == storey+"/*" })
	}
	return i
}

// names reports whether an entry of a rule means a package: it is the package's name, or STOREY/* for a subpackage.
func names(entry, pkg string) bool {
	storey, _, ok := strings.Cut(pkg, "/")
	return entry == pkg || ok && entry == storey+"/*"
}

// belowServer is what the server's package and its subpackages may import.
var belowServer = []string{
	"admission",
	"api",
	"bootloader",
	"bootlog",
	"bootmethod",
	"bootplan",
	"build/*",
	"chunk",
	"command",
	"configfile",
	"connlimit",
	"dhcp",
	"discovery",
	"diskreserve",
	"endpoint",
	"fleet",
	"fleetview",
	"hint",
	"hooks",
	"httpapi",
	"identity",
	"image",
	"image/bootpack",
	"imagefs",
	"initrd",
	"journal",
	"lastseen",
	"media",
	"metrics",
	"netboot",
	"nodeauth",
	"nodecommand",
	"nodeconfig",
	"nodestate",
	"openid",
	"power",
	"ratelimit",
	"loglimit",
	"registry",
	"rollout",
	"sockopt",
	"store",
	"swarm",
	"swarm/tracker",
	"tftp",
	"trace",
	"versions",
	"volume",
	"workdir",
}

// mayImport is the table of docs/architecture.md: a package may import only the named packages, which stand before it
// here. Subpackages of one package do not import each other.
var mayImport = []rule{
	{"fleet", nil},
	{"chunk", nil},
	{"sockopt", nil},
	{"connlimit", nil},
	{"ratelimit", nil},
	{"loglimit", []string{"ratelimit"}},
	{"tftp", []string{"sockopt"}},
	{"nbd", nil},
	{"command", nil},
	{"mount", []string{"command"}},
	{"ext4", nil},
	{"image", []string{"fleet", "chunk"}},
	{"image/bootpack", []string{"fleet", "chunk", "image"}},
	{"trace", []string{"fleet"}},
	{"netboot", []string{"fleet"}},
	{"rollout", []string{"fleet"}},
	{"store", []string{"sockopt", "fleet", "chunk", "image", "image/bootpack"}},
	{"secretfile", nil},
	{"store/s3", []string{"chunk", "secretfile", "store"}},
	{"cache", []string{"chunk"}},
	{"media", []string{"cache"}},
	{"piecestore", []string{"chunk", "image/bootpack"}},
	{"blockdev", []string{"chunk", "image/bootpack", "piecestore"}},
	{"dhcp", []string{"sockopt", "ratelimit", "fleet", "netboot"}},
	{"diskreserve", nil},
	{"registry", []string{"diskreserve", "fleet", "trace"}},
	{"swarm", []string{"chunk"}},
	{"swarm/tracker", []string{"chunk", "swarm"}},
	{"swarm/peer", []string{"sockopt", "chunk", "store", "swarm"}},
	{"api", []string{"fleet", "chunk", "trace", "image", "image/bootpack"}},
	{"fleetfile", []string{"fleet", "api"}},
	{"ship", []string{"fleet", "chunk", "image", "image/bootpack", "store", "api"}},
	{"configfile", []string{"fleet"}},
	{"nodestate", []string{"fleet"}},
	{"volume", []string{"command"}},
	{"journal", nil},
	{"identity", []string{"fleet", "image", "secretfile"}},
	{"power", []string{"fleet", "command"}},
	{"openid", []string{"fleet"}},
	{"steps", nil},
	{"zstdcmd", []string{"command"}},
	{"systree", []string{"image"}},
	{"workdir", []string{"image", "store", "command", "steps"}},
	{"rawdigest", []string{"chunk", "store"}},
	{"imagefs", []string{"chunk", "image", "store", "systree"}},
	{"build/source", []string{"mount", "systree", "command"}},
	{"build/*", []string{"mount", "fleet", "chunk", "image", "image/bootpack", "trace", "store", "api", "command",
		"steps", "zstdcmd", "systree", "workdir", "rawdigest", "imagefs"}},
	{"build", []string{"mount", "command", "fleet", "chunk", "image", "store", "steps", "systree", "workdir",
		"rawdigest", "imagefs", "build/*"}},
	{"problem", nil},
	{"backoff", nil},
	{"rootdaemon", nil},
	{"hardware", []string{"fleet"}},
	{"rundir", []string{"fleet", "trace"}},
	{"kmod", []string{"fleet", "image"}},
	{"link", []string{"backoff", "fleet", "hardware", "rundir"}},
	{"control", []string{"api", "backoff", "fleet", "trace"}},
	{"blockapi", []string{"chunk", "fleet", "image/bootpack", "link", "nbd", "swarm", "rootdaemon", "rundir"}},
	{"bootfiles", []string{"blockapi", "chunk", "fleet", "image", "image/bootpack", "swarm", "swarm/peer"}},
	{"disk", []string{"api", "blockapi", "cache", "hardware", "problem"}},
	{"lastboot", []string{
		"api", "blockapi", "cache", "chunk", "control", "fleet", "image", "image/bootpack", "link", "problem",
		"rundir",
	}},
	{"rootdir", []string{"fleet"}},
	{"extension", []string{
		"blockapi", "bootfiles", "fleet", "hardware", "image", "image/bootpack", "link", "nbd", "swarm",
		"problem", "rootdir", "rundir",
	}},
	{"systemd", []string{"api"}},
	{"tpm", []string{"api"}},
	{"node/blockd", []string{
		"blockapi", "blockdev", "cache", "chunk", "connlimit", "sockopt", "fleet", "hardware", "image",
		"image/bootpack",
		"link", "nbd", "piecestore", "swarm", "swarm/peer", "rootdaemon", "rundir", "store", "trace",
	}},
	{"node/*", []string{
		"api", "backoff", "blockapi", "bootfiles", "control", "disk", "ext4", "extension", "fleet",
		"hardware", "image", "image/bootpack", "kmod", "lastboot", "link", "media", "nbd", "swarm", "problem",
		"rootdaemon", "rootdir", "rundir", "systemd", "tpm", "trace",
	}},
	{"node", []string{"blockapi", "ext4", "fleet", "kmod", "node/*", "rundir", "trace"}},
	{"lastseen", []string{"fleet"}},
	{"nodecommand", []string{"fleet", "registry", "swarm", "api"}},
	{"httpapi", []string{"fleet", "api", "registry"}},
	{"hint", []string{"httpapi"}},
	{"versions", []string{"fleet", "chunk", "image", "store", "registry", "api", "identity", "httpapi", "hint"}},
	{"fleetview", []string{"fleet", "trace", "api", "registry", "httpapi"}},
	{"hooks", []string{"fleet"}},
	{"metrics", []string{"fleet", "trace"}},
	{"discovery", []string{"fleet", "registry", "api", "httpapi", "ratelimit"}},
	{"admission", []string{"fleet", "netboot", "api"}},
	{"bootlog", []string{"fleet", "trace", "registry", "api", "identity", "netboot"}},
	{"bootplan", []string{"fleet", "image", "rollout", "registry", "api", "hint", "versions"}},
	{"nodeauth", []string{"fleet", "registry", "api", "httpapi"}},
	{"endpoint", nil},
	{"bootloader", []string{"hint", "netboot", "store"}},
	{"output", []string{"trace"}},
	{"nodeconfig", []string{"fleet", "dhcp", "registry", "configfile", "identity"}},
	{"initrd", []string{"fleet", "image", "store", "build/*", "hint"}},
	{"bootmethod", []string{"fleet", "image", "trace", "rollout", "store", "registry", "api", "fleetview", "versions"}},
	{"server/dashboard", slices.Concat(belowServer, []string{"output"})}, // for what is removed from text
	{"server/*", belowServer},
	{"server", slices.Concat(belowServer, []string{"server/*", "build/*"})},
	{"sim", []string{"chunk", "fleet", "netboot", "swarm"}},
	{"exitcode", []string{"api"}},
	{"terminal", []string{"output", "steps"}},
	{"cmdenv", []string{"api", "exitcode", "fleet", "output", "terminal"}},
	{"settingflags", []string{"exitcode", "fleet"}},
	{"listing", []string{"api", "fleet", "output", "terminal", "trace"}},
	{"hostcheck", []string{"api", "bootloader", "cmdenv", "dhcp", "exitcode", "netboot", "output"}},
	{"storeflags", []string{"exitcode", "output", "server", "store", "store/s3"}},
	{"buildrun", []string{"build", "exitcode", "fleet", "image", "output", "terminal"}},
	{"cli/doctor", []string{"bootloader", "cmdenv", "exitcode", "hostcheck", "output"}},
	{"cli/serve", []string{
		"api", "bootloader", "build", "build/*", "buildrun", "cmdenv", "dhcp", "exitcode", "fleet", "hostcheck",
		"listing", "openid", "output", "secretfile", "server", "server/*", "store/s3", "storeflags", "terminal",
	}},
	{"cli/image", []string{
		"api", "build", "build/*", "buildrun", "cmdenv", "exitcode", "fleet", "identity", "image", "mount", "output",
		"ship", "steps", "storeflags", "terminal",
	}},
	{"cli/store", []string{
		"api", "chunk", "cmdenv", "exitcode", "fleet", "identity", "image", "imagefs", "output", "steps", "store",
		"store/s3", "storeflags", "swarm", "terminal",
	}},
	{"cli/key", []string{"api", "cmdenv", "exitcode", "fleet", "identity", "image", "output", "store", "storeflags"}},
	{"cli/loader", []string{"api", "cmdenv", "exitcode", "netboot", "output"}},
	{"cli/site", []string{"api", "cmdenv", "exitcode", "fleet", "media", "output", "store"}},
	{"cli/*", []string{
		"api", "cmdenv", "exitcode", "fleet", "fleetfile", "listing", "output", "settingflags", "sim", "terminal",
		"trace",
	}},
	{"cli", []string{"api", "cli/*", "cmdenv", "exitcode", "output", "server"}},
	{"testkit/loaderkit", nil},
	{"testkit/nodekit", []string{"api", "chunk", "fleet", "image"}},
	{"testkit/cachekit", []string{"blockapi", "cache", "testkit/nodekit"}},
	{"testkit/clikit", []string{"api", "cmdenv", "registry", "trace"}},
	{"testkit", []string{
		"fleet", "chunk", "image", "image/bootpack", "trace", "store", "blockdev", "api", "identity",
		"netboot",
	}},
	{"bench", []string{
		"api", "blockdev", "build", "build/*", "chunk", "fleet", "identity", "image", "imagefs", "nbd", "steps",
		"store", "testkit", "trace",
	}},
	{"bench/testbed", []string{
		"api", "bench", "blockapi", "blockdev", "build/*", "chunk", "fleet", "identity", "image", "image/bootpack",
		"link", "node/blockd", "store", "swarm/peer", "testkit", "trace",
	}},
	{"lab/*", []string{
		"api", "bench", "bench/testbed", "blockapi", "blockdev", "build", "build/*", "cache", "chunk", "fleet",
		"identity", "image", "image/bootpack", "imagefs", "link", "mount", "nbd", "node/agent", "node/blockd",
		"piecestore", "sim", "store", "swarm", "swarm/peer", "testkit", "trace",
	}},
}

// TestImportDirection also finds a package that is missing in the table, and an entry without a package.
func TestImportDirection(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range program(sources(t)) {
		name, ok := strings.CutPrefix(s.dir, "internal/")
		if !ok {
			continue
		}
		i := find(mayImport, name)
		if i < 0 {
			t.Errorf("%s: package %s has no place in the import table", s.path, name)
			continue
		}
		seen[mayImport[i].name] = true
		for _, p := range s.imports() {
			dep, ours := strings.CutPrefix(p, "pando/internal/")
			may := slices.ContainsFunc(mayImport[i].may, func(entry string) bool { return names(entry, dep) })
			if ours && !may {
				t.Errorf("%s imports %s, which package %s may not", s.path, dep, name)
			}
		}
	}
	for i, r := range mayImport {
		if !seen[r.name] && !strings.HasSuffix(r.name, "/*") {
			t.Errorf("package %s of the import table does not exist", r.name)
		}
		for _, dep := range r.may {
			if find(mayImport[:i], dep) < 0 {
				t.Errorf("table: %s may import %s, which does not stand before it", r.name, dep)
			}
		}
	}
}

// Pure packages only compute; their callers do I/O and pass the time.
func TestPurePackagesHaveNoSocketsFilesClockOrLogger(t *testing.T) {
	pure := []string{"fleet", "chunk", "image", "image/bootpack", "trace", "netboot", "rollout"}
	for _, s := range program(sources(t)) {
		if !slices.Contains(pure, strings.TrimPrefix(s.dir, "internal/")) {
			continue
		}
		for _, p := range s.imports() {
			switch p {
			case "os", "log", "log/slog", "net/http", "os/exec", "syscall", "golang.org/x/sys/unix":
				t.Errorf("%s imports %s", s.path, p)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if what := sideEffect(n); what != "" {
				t.Errorf("%s:%d uses %s", s.path, s.line(n.Pos()), what)
			}
			return true
		})
	}
}

// The simulator also runs the swarm's decisions, so they use no sockets, goroutines, locks or clocks.
func TestSwarmDecidesWithoutSockets(t *testing.T) {
	for _, s := range program(sources(t)) {
		if s.dir != "internal/swarm" {
			continue
		}
		for _, p := range s.imports() {
			switch p {
			case "context",
				"log/slog",
				"net",
				"net/http",
				"os",
				"sync",
				"sync/atomic",
				"syscall",
				"golang.org/x/sys/unix":
				t.Errorf("%s imports %s", s.path, p)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			what := sideEffect(n)
			switch n.(type) {
			case *ast.GoStmt:
				what = "a goroutine"
			case *ast.ChanType:
				what = "a channel"
			}
			if what != "" {
				t.Errorf("%s:%d uses %s", s.path, s.line(n.Pos()), what)
			}
			return true
		})
	}
}

// sideEffect returns the name of the clock or socket that an expression uses, "" if there is none.
func sideEffect(n ast.Node) string {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	name := sel.Sel.Name
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}
	if pkg.Name == "time" && slices.Contains(clock, name) ||
		pkg.Name == "net" && (strings.HasPrefix(name, "Dial") || strings.HasPrefix(name, "Listen")) {
		return pkg.Name + "." + name
	}
	return ""
}

// Importing package testing would add its flags to programs.
func TestNoTestingInPrograms(t *testing.T) {
	for _, s := range program(sources(t)) {
		for _, p := range s.imports() {
			if p == "testing" || strings.HasPrefix(p, "testing/") {
				t.Errorf("%s imports %s", s.path, p)
			}
			lab := strings.HasPrefix(s.dir, "internal/bench") || strings.HasPrefix(s.dir, "internal/lab/")
			if p == "pando/internal/testkit" && !lab {
				t.Errorf("%s imports the testkit; only tests and the lab do", s.path)
			}
		}
	}
}

// No code runs before main, and no package registers itself on import.
func TestNoInitFunctions(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s:%d: func init", s.path, s.line(f.Pos()))
			}
		}
	}
}
