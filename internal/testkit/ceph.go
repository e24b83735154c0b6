package testkit

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// cephConf configures a cluster with one monitor and one store in memory, which listens on loopback only.
const cephConf = `[global]
fsid = 5f2d4c1e-7a0b-4d52-9d35-6c1b8f0e9a11
mon host = [v2:127.0.0.1:%[1]s/0,v1:127.0.0.1:%[2]s/0]
mon initial members = a
public addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
run dir = %[3]s
admin socket = %[3]s/$name.asok
log file = %[3]s/$name.log
pid file =
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data avail crit = 1
osd objectstore = memstore
memstore device bytes = 1073741824
osd memory target = 939524096
mon_osd_full_ratio = 0.99
[mon.a]
mon data = %[3]s/mon
[osd.0]
osd data = %[3]s/osd
[client.admin]
rgw frontends = beast endpoint=127.0.0.1:%[4]s
rgw thread pool size = 32
rgw enable usage log = false
`

// StartCeph starts a Ceph cluster that keeps everything in memory, and its object gateway. It takes half a minute.
func StartCeph(ctx context.Context, dir string) (*S3, error) {
	for _, p := range []string{"ceph-mon", "ceph-osd", "ceph", "radosgw", "radosgw-admin", "monmaptool"} {
		if _, err := exec.LookPath(p); err != nil {
			return nil, fmt.Errorf("%s: %w", p, ErrNoProgram)
		}
	}
	ports := make([]string, 3)
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	conf := filepath.Join(dir, "ceph.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, cephConf, ports[0], ports[1], dir, ports[2]), 0o644); err != nil {
		return nil, err
	}
	for _, sub := range []string{"mon", "osd"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	s := &S3{
		Endpoint: "http://" + net.JoinHostPort("127.0.0.1", ports[2]),
		Access:   "pando",
		Secret:   "pando-secret",
		log:      filepath.Join(dir, "out"),
	}
	c := cephCluster{s, ctx, dir, conf}
	if err := c.start(ports); err != nil {
		log, _ := os.ReadFile(s.log)
		_ = s.Close()
		return nil, fmt.Errorf("start ceph: %w\n%s", err, log)
	}
	return s, s.wait(ctx)
}

type cephCluster struct {
	*S3
	ctx  context.Context
	dir  string
	conf string
}

// start starts the parts one after the other. Each command waits until the part before it answers.
func (c cephCluster) start(ports []string) error {
	monmap, fsid := filepath.Join(c.dir, "monmap"), "5f2d4c1e-7a0b-4d52-9d35-6c1b8f0e9a11"
	addr := fmt.Sprintf("[v2:127.0.0.1:%s,v1:127.0.0.1:%s]", ports[0], ports[1])
	for _, step := range []func() error{
		func() error {
			return c.do("monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a", addr, monmap)
		},
		func() error { return c.do("ceph-mon", "-c", c.conf, "-i", "a", "--mkfs", "--monmap", monmap) },
		func() error { return c.daemon("ceph-mon", "-i", "a") },
		func() error { return c.do("ceph", "-c", c.conf, "--connect-timeout", "60", "osd", "new", fsid) },
		func() error { return c.do("ceph-osd", "-c", c.conf, "-i", "0", "--mkfs", "--osd-uuid", fsid) },
		func() error { return c.daemon("ceph-osd", "-i", "0") },
		func() error {
			return c.do("ceph", "-c", c.conf, "osd", "crush", "add", "osd.0", "1", "root=default", "host=local")
		},
		func() error {
			return c.do("radosgw-admin", "-c", c.conf, "user", "create", "--uid", "pando", "--display-name", "pando",
				"--access-key", c.Access, "--secret-key", c.Secret)
		},
		func() error { return c.daemon("radosgw", "-n", "client.admin") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c cephCluster) do(name string, args ...string) error {
	out, err := exec.CommandContext(c.ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (c cephCluster) daemon(name string, args ...string) error {
	return c.S3.start(exec.Command(name, append([]string{"-c", c.conf, "-f"}, args...)...))
}
