package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"pando/internal/bench"
	"pando/internal/build"
)

// dockerWay is the name of Docker's way.
const dockerWay = "docker save | gzip"

// buildWay converts a tree in its own directory. The result is durable when it ends.
type buildWay struct {
	name    string
	command func(tree, dir string) []string
	written func(dir string, output []byte) (int64, error)
	docker  *docker // daemon that has imported the tree, and whose processor time counts; nil: none
}

// buildWays returns all ways; Docker's only if there is a daemon.
func buildWays(d *docker) []buildWay {
	file := func(name string) func(string, []byte) (int64, error) {
		return func(dir string, _ []byte) (int64, error) {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				return 0, err
			}
			return info.Size(), nil
		}
	}
	shell := func(script string) func(tree, dir string) []string {
		return func(tree, dir string) []string {
			return []string{"sh", "-c", script + ` && sync "$2"/out`, "sh", tree, dir}
		}
	}
	ways := []buildWay{
		{
			bench.PandoWay,
			func(tree, dir string) []string { return []string{"/proc/self/exe", "build-once", tree, dir} },
			pandoWrote,
			nil,
		},
		{
			"mksquashfs -comp zstd",
			shell(`mksquashfs "$1" "$2"/out -comp zstd -noappend -no-progress -quiet`),
			file("out"),
			nil,
		},
		{"tar | gzip", shell(`tar -C "$1" -cf - . | gzip > "$2"/out`), file("out"), nil},
		{"tar | zstd -3 -T0", shell(`tar -C "$1" -cf - . | zstd -q -3 -T0 > "$2"/out`), file("out"), nil},
	}
	if d != nil {
		save := shell(`docker save ` + dockerImage + ` | gzip > "$2"/out`)
		ways = append(ways, buildWay{dockerWay, save, file("out"), d})
	}
	return ways
}

// pandoWrote parses the output of the child process of Pando's way.
func pandoWrote(_ string, output []byte) (n int64, err error) {
	err = json.Unmarshal(output, &n)
	return n, err
}

// run measures one run: a child process and everything that it starts.
func (b *Build) run(ctx context.Context, way buildWay, dir string, again bool) (buildRun, error) {
	args := way.command(b.tree, dir)
	if args[0] == "/proc/self/exe" {
		self, err := os.Executable()
		if err != nil {
			return buildRun{}, err
		}
		args[0] = self
	}
	if way.docker != nil {
		return b.runDocker(ctx, way, args, dir, again)
	}
	return runCommand(exec.CommandContext(ctx, args[0], args[1:]...), way, dir, again, b.Err)
}

// runCommand measures a child process.
func runCommand(c *exec.Cmd, way buildWay, dir string, again bool, stderr io.Writer) (buildRun, error) {
	c.Stderr = stderr
	begin := time.Now()
	output, err := c.Output()
	took := time.Since(begin)
	if err != nil {
		return buildRun{}, err
	}
	usage := c.ProcessState.SysUsage().(*syscall.Rusage)
	r := buildRun{
		Way:    way.name,
		Again:  again,
		Wall:   took,
		CPU:    c.ProcessState.UserTime() + c.ProcessState.SystemTime(),
		Memory: usage.Maxrss * 1024,
	}
	r.Bytes, err = way.written(dir, output)
	return r, err
}

// runDocker measures a child process and the daemon, which does most of the work. It imports the tree into Docker
// before, which does not count; the duration is recorded in Before.
func (b *Build) runDocker(
	ctx context.Context,
	way buildWay,
	args []string,
	dir string,
	again bool,
) (buildRun, error) {
	begin := time.Now()
	if err := way.docker.importTree(ctx, b.tree); err != nil {
		return buildRun{}, err
	}
	before := time.Since(begin)
	was, _, err := way.docker.cost()
	if err != nil {
		return buildRun{}, err
	}
	r, err := runCommand(way.docker.command(ctx, args[0], args[1:]...), way, dir, again, b.Err)
	if err != nil {
		return buildRun{}, err
	}
	cpu, memory, err := way.docker.cost()
	r.Before, r.CPU, r.Memory = before, r.CPU+time.Duration((cpu-was)*float64(time.Second)), max(r.Memory, memory)
	return r, err
}

// BuildOnce is the child process of Pando's way: it builds, stores and publishes a version, and prints the bytes of new
// objects.
func BuildOnce(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) != 2 {
		return errors.New("build-once TREE DIR")
	}
	r, err := bench.Build(ctx, args[1], "", func(o *build.Options) { o.Recipe, o.FromDir = nil, args[0] })
	if err != nil {
		return err
	}
	for _, step := range build.Steps() {
		fmt.Fprintf(stderr, "  %-8s %6.1f s\n", step, r.Elapsed[step].Seconds())
	}
	_, err = fmt.Fprintln(stdout, r.NewBytes)
	return err
}
