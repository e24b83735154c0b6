package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// ganeshaConf exports a directory over NFS 4 to all clients, which may write as root. Owners are numbers.
const ganeshaConf = `NFS_CORE_PARAM { NFS_Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; NFS_Port = 2049; }
NFSv4 { Graceless = true; Grace_Period = 5; RecoveryRoot = "%[1]s"; Only_Numeric_Owners = true; }
LOG { Default_Log_Level = WARN; }
EXPORT { Export_Id = 1; Path = "%[2]s"; Pseudo = /srv; Access_Type = RW; Squash = No_root_squash; SecType = sys; Protocols = 4; Transports = TCP;
	FSAL { Name = VFS; } }
`

// NFS is an NFS server in user space.
type NFS struct {
	Export string // what nodes mount: "10.77.0.1:/srv"

	net  *Net
	dir  string
	conf string
	cmd  *exec.Cmd
	done chan struct{}
}

// StartNFS exports a directory in a network. It keeps its own files in dir. The caller must call Close.
func StartNFS(ctx context.Context, n *Net, export, dir string) (*NFS, error) {
	if _, err := exec.LookPath("ganesha.nfsd"); err != nil {
		return nil, fmt.Errorf("nfs-ganesha: %w", ErrNoProgram)
	}
	if err := errors.Join(os.MkdirAll(export, 0o755), os.MkdirAll(dir, 0o755)); err != nil {
		return nil, err
	}
	s := &NFS{Export: n.Addr.Addr().String() + ":/srv", net: n, dir: dir, conf: filepath.Join(dir, "ganesha.conf")}
	if err := os.WriteFile(s.conf, fmt.Appendf(nil, ganeshaConf, dir, export), 0o644); err != nil {
		return nil, err
	}
	return s, s.Start(ctx)
}

// Start starts the server, also after Kill, and waits until it listens.
func (s *NFS) Start(ctx context.Context) error {
	log := filepath.Join(s.dir, "log")
	s.cmd = s.net.Command(
		context.Background(),
		"ganesha.nfsd",
		"-F",
		"-f",
		s.conf,
		"-L",
		log,
		"-p",
		filepath.Join(s.dir, "pid"),
	)
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start nfs-ganesha: %w", err)
	}
	s.done = make(chan struct{})
	go func(c *exec.Cmd, done chan struct{}) {
		_ = c.Wait() // it was killed, or its log has the reason
		close(done)
	}(s.cmd, s.done)
	for ctx.Err() == nil {
		err := s.net.Do(func() error {
			c, err := net.DialTimeout("tcp", net.JoinHostPort(s.net.Addr.Addr().String(), "2049"), time.Second)
			if err == nil {
				c.Close()
			}
			return err
		})
		if err == nil {
			return nil
		}
		select {
		case <-s.done:
			text, _ := os.ReadFile(log)
			return fmt.Errorf("nfs-ganesha has ended:\n%s", text)
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("nfs-ganesha does not listen: %w", context.Cause(ctx))
}

// Kill ends the server at once, like a power cut.
func (s *NFS) Kill() error {
	if err := s.cmd.Process.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill nfs-ganesha: %w", err)
	}
	<-s.done
	return nil
}

// Close ends the server.
func (s *NFS) Close() error { return s.Kill() }
