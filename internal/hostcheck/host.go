package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/exitcode"
	"pando/internal/output"
)

// checkInterface checks the interface of the nodes, or all interfaces if none is named.
func checkInterface(_ context.Context, o Options) []Finding {
	if o.Interface == "" {
		return checkAnyInterface()
	}
	i, err := net.InterfaceByName(o.Interface)
	if err != nil {
		return found(Problem, NameOne("name one of"), "there is no interface "+
			"%s", o.Interface)
	}
	return interfaceState(*i)
}

func interfaceState(i net.Interface) []Finding {
	if i.Flags&net.FlagUp == 0 {
		return found(Problem, "ip link set "+i.Name+" up, and make it so at boot", "%s is down", i.Name)
	}
	if i.Flags&net.FlagRunning == 0 {
		return found(Problem, "check cable and switch port", "%s has no carrier", i.Name)
	}
	addrs := ipv4Of(i)
	if len(addrs) == 0 {
		return found(
			Problem,
			"give it a fixed one: ip address add 10.0.0.1/24 dev "+i.Name+", and make it so at boot",
			"%s has no IPv4 address",
			i.Name,
		)
	}
	return found(Fine, "", "%s is up with %s", i.Name, strings.Join(addrs, ", "))
}

func checkAnyInterface() []Finding {
	var names []string
	all, err := net.Interfaces()
	if err != nil {
		return found(Problem, "", "cannot list interfaces: %v", err)
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagRunning != 0 && len(ipv4Of(i)) > 0 {
			names = append(names, i.Name+" "+strings.Join(ipv4Of(i), ", "))
		}
	}
	if len(names) == 0 {
		return found(
			Problem,
			"bring the interface that nodes are on up, with a fixed address",
			"no interface is up with an IPv4 address",
		)
	}
	return found(Fine, "", "%s (look at one with --interface)", strings.Join(names, "; "))
}

// NameOne returns a hint that ends with the network interfaces of this machine, or says that there are none.
func NameOne(begin string) string { return nameOne(begin, interfaceNames()) }

func nameOne(begin string, names []string) string {
	if len(names) == 0 {
		return "this machine has no network interface but the loopback: is its driver loaded, and is this process in " +
			"the machine's own network namespace?"
	}
	return begin + " " + strings.Join(names, ", ")
}

func interfaceNames() []string {
	var names []string
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range all {
		if i.Flags&net.FlagLoopback == 0 {
			names = append(names, i.Name)
		}
	}
	return names
}

// ipv4Of returns an interface's IPv4 addresses with their prefix lengths.
func ipv4Of(i net.Interface) []string {
	var out []string
	addrs, err := i.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLinkLocalUnicast() {
			out = append(out, n.String())
		}
	}
	return out
}

// checkTools looks for the programs that `image build` runs, and for the agent.
func checkTools(_ context.Context, o Options) []Finding {
	var out []Finding
	for _, t := range []struct{ name, pkg, use string }{
		{"mkfs.erofs", "erofs-utils", "image build"}, {"mmdebstrap", "mmdebstrap", "image build --recipe"},
	} {
		if _, err := exec.LookPath(t.name); err != nil {
			out = append(
				out,
				found(Warning, "apt install "+t.pkg, "%s is not installed: `%s` needs it", t.name, t.use)...)
		}
	}
	if _, err := findAgent(o.Agent); err != nil {
		out = append(out, found(Problem, exitcode.HintOf(err), "%v", err)...)
	}
	if len(out) == 0 {
		out = found(Fine, "", "mkfs.erofs, mmdebstrap and pando-init are there")
	}
	return out
}

// Free disk space, in bytes. A build of Debian needs 1.5 GB while it runs and leaves half a gigabyte.
const (
	diskProblem = 1_000_000_000
	diskWarning = 5_000_000_000
)

const makeRoom = "make room, or move the data directory with --data"

func checkDisk(ctx context.Context, o Options) []Finding {
	dir := existing(o.Data)
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return found(Problem, "", "cannot ask for the free space of %s: %v", dir, err)
	}
	free := int64(s.Bavail) * s.Bsize
	switch {
	case s.Flags&unix.ST_RDONLY != 0:
		return found(
			Problem,
			"remount it, or move the data directory with --data",
			"%s is on a read-only file system",
			dir,
		)
	case free < diskProblem:
		c := api.OverSocket(cmdenv.SocketPath(o.Data))
		defer c.Close()
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		s, _ := c.Status(ctx) // without a server the status is unknown
		return littleRoom(s, free, o.Data)
	case free < diskWarning:
		return found(Warning, makeRoom, "%s free for %s: room for few images", output.Size(free), o.Data)
	case s.Files > 0 && s.Ffree < 100_000:
		return found(Warning, makeRoom, "%d inodes free for %s: an image takes about 15,000", s.Ffree, o.Data)
	}
	return found(Fine, "", "%s free for %s", output.Size(free), o.Data)
}

// littleRoom reports what the server says about its full disk or, without a server, how much is free.
func littleRoom(s api.Status, free int64, data string) []Finding {
	if s.Disk != nil {
		return found(Problem, s.Disk.Do, "%s free for %s: %s", output.Size(free), data, s.Disk.Text())
	}
	return found(Problem, makeRoom, "%s free for %s", output.Size(free), data)
}

// existing returns the nearest existing path at or above path.
func existing(path string) string {
	for {
		if _, err := os.Stat(path); err == nil || path == "/" || path == "." {
			return path
		}
		path = filepath.Dir(path)
	}
}

// clockSlack is how far the clock may be behind the time of a written file, because file systems round times.
const clockSlack = 2 * time.Minute

// checkClock finds a clock that is behind the time of written files, or that nothing synchronises. Nodes take their
// time from the server.
func checkClock(_ context.Context, o Options) []Finding {
	now := time.Now()
	exe, err := os.Executable()
	paths := []string{filepath.Join(o.Data, "registry.db"), filepath.Join(o.Data, "keys", "site.pub")}
	if err == nil {
		paths = append(paths, exe)
	}
	for _, p := range paths {
		if s, err := os.Stat(p); err == nil && s.ModTime().After(now.Add(clockSlack)) {
			return found(
				Problem,
				"set it: timedatectl set-ntp true",
				"the clock says %s, but %s was written at %s",
				output.Time(now),
				p,
				output.Time(s.ModTime()),
			)
		}
	}
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err == nil && state == unix.TIME_ERROR {
		return found(note, "timedatectl set-ntp true", "nothing keeps the clock right (%s)", output.Time(now))
	}
	return found(Fine, "", "%s", output.Time(now))
}

// findAgent returns the path of the program that is put into every initramfs: the named one, or one beside this
// program, or the installed one.
func findAgent(named string) (string, error) {
	if named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", exitcode.WithHint(fmt.Errorf("agent: %w", err), "name the pando-init binary with --agent")
		}
		return named, nil
	}
	var places []string
	if exe, err := os.Executable(); err == nil {
		bin := filepath.Dir(exe)
		places = append(places, filepath.Join(bin, "pando-init"), filepath.Join(bin, "../lib/pando/pando-init"))
	}
	places = append(places, "/usr/lib/pando/pando-init")
	for _, p := range places {
		if _, err := os.Stat(p); err == nil {
			return p, nil
		}
	}
	return "", exitcode.WithHint(
		errors.New("no pando-init beside pando, in ../lib/pando or in /usr/lib/pando"),
		"build it with `make build`, or name it with --agent FILE",
	)
}
