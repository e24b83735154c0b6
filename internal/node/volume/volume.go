package volume

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/api"
	"pando/internal/blockapi"
	"pando/internal/control"
	"pando/internal/nbd"
	"pando/internal/rootdaemon"
	"pando/internal/rundir"
)

// Name is the name of the process that keeps the node's volume, or its swap space, attached. Because of the '@'
// systemd does not kill it at shutdown, when file systems are unmounted over it.
const Name = "@pando-volume"

// Timing of a volume's connection. TCP keepalive finds out that a server was switched off.
const (
	volumeTry   = 30 * time.Second
	volumePause = time.Second
	quietAfter  = 10 // idle seconds before the first probe
	quietEvery  = 5  // seconds between probes
	quietMost   = 3  // unanswered probes
)

// attacher keeps a volume attached: it connects to the server and gives the connection to the kernel, which does all
// reads and writes. This process sees no byte of the volume and opens no file on it.
type attacher struct {
	dir    string
	log    *slog.Logger
	kernel nbd.KernelDevice
	swap   *swapKeeping // nil: the volume has the node's state
}

// Run is the role Name. It returns the exit status. The argument swapArg selects swap space.
func Run(args []string) int {
	log := rootdaemon.Log(Name)
	if err := rootdaemon.Become(16<<20, 50); err != nil {
		log.Error("memory cannot be locked", "err", err)
		return 1
	}
	v := attacher{
		dir: rundir.Dir,
		log: log,
		kernel: nbd.KernelDevice{
			Index:       blockapi.VolumeDevice,
			DeadTimeout: blockapi.DeadTimeout,
			Backend:     "pando-volume",
		},
	}
	if len(args) > 0 && args[0] == swapArg {
		v.kernel.Index, v.kernel.Backend = blockapi.SwapDevice, "pando-swap"
		prepareForOutage(rundir.Dir, log)
		v.swap = newSwapKeeping(rundir.Dir, swappinessFile, log)
	}
	last := ""
	for {
		err := v.once(context.Background())
		if text := err.Error(); text != last {
			log.Warn("volume is not attached; trying again", "err", err)
			last = text
		}
		time.Sleep(volumePause)
	}
}

// once attaches the volume and returns why it is not attached any more.
func (v *attacher) once(ctx context.Context) error {
	attached, err := v.kernel.Connected()
	if err != nil {
		return err
	}
	sock, about, err := v.connect(ctx, attached)
	if err != nil {
		return v.swap.lost(v.kernel, attached, err)
	}
	defer sock.Close()
	v.kernel.Size, v.kernel.Flags, v.kernel.BlockSize = about.Size, about.Flags, 4096
	if attached {
		err = v.again(sock)
	} else {
		err = v.kernel.Connect(sock)
	}
	if err != nil {
		return err
	}
	blockapi.ShortenTimeout(v.kernel.Index)
	v.log.Info("volume attached", "device", v.kernel.Index, "bytes", about.Size)
	v.swap.back()
	if !attached {
		v.swap.fresh(ctx)
	}
	defer v.swap.away()
	return waitHangUp(sock)
}

// again gives a connected device another socket. The kernel refuses until it has noticed that the old socket is dead.
func (v *attacher) again(sock *os.File) error {
	var err error
	for range 100 {
		if err = v.kernel.Reconnect(sock); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// connect requests the volume from the server with this boot's session, and returns a connection after the NBD
// handshake.
func (v *attacher) connect(ctx context.Context, attached bool) (*os.File, nbd.Entered, error) {
	var s rundir.Session
	if err := rundir.ReadJSON(v.dir, rundir.SessionName, &s); err != nil {
		return nil, nbd.Entered{}, err
	}
	control, err := control.New(v.swap.ask(s.Control, attached), s.ServerKey, nil)
	if err != nil {
		return nil, nbd.Entered{}, err
	}
	defer control.CloseIdle()
	ctx, cancel := context.WithTimeout(ctx, volumeTry)
	defer cancel()
	var t api.VolumeTicket
	if err := control.Call(ctx, "/v1/node/volume", "Bearer "+s.Session,
		api.VolumeRequest{Boot: s.Boot, Swap: v.swap != nil, Used: attached}, &t); err != nil {
		return nil, nbd.Entered{}, fmt.Errorf("ask for the volume: %w", err)
	}
	v.swap.asked(control.InOrder()[0])
	c, err := new(net.Dialer).DialContext(ctx, "tcp", t.Address)
	if err != nil {
		return nil, nbd.Entered{}, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(volumeTry)) // never fails for a socket
	if err := upgrade(c, t); err != nil {
		return nil, nbd.Entered{}, err
	}
	about, err := nbd.Enter(c, t.Export)
	if err != nil {
		return nil, about, err
	}
	sock, err := c.(*net.TCPConn).File()
	if err != nil {
		return nil, about, err
	}
	return sock, about, noticeSilence(sock)
}

// upgrade switches an HTTP connection to NBD. It reads byte by byte, because the rest belongs to the kernel.
func upgrade(c net.Conn, t api.VolumeTicket) error {
	_, err := fmt.Fprintf(
		c,
		"GET %s HTTP/1.1\r\nHost: pando\r\nConnection: Upgrade\r\nUpgrade: nbd\r\nAuthorization: Ticket %s\r\n\r\n",
		t.Path,
		t.Ticket,
	)
	if err != nil {
		return err
	}
	var head []byte
	for b := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, b[0]) {
		if _, err := io.ReadFull(c, b); err != nil || len(head) > 4096 {
			return errors.Join(errors.New("the server does not give the volume"), err)
		}
	}
	line, _, _ := bufio.ScanLines(head, true)
	if !bytes.HasPrefix(head, []byte("HTTP/1.1 101 ")) {
		return fmt.Errorf("the server does not give the volume: %s", head[:max(line-2, 0)])
	}
	return nil
}

// noticeSilence makes the kernel end a connection whose other side disappeared.
func noticeSilence(sock *os.File) error {
	fd := int(sock.Fd())
	var errs []error
	for _, o := range []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1}, {unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, quietAfter},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, quietEvery},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, quietMost},
		{unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 1000 * (quietAfter + quietEvery*quietMost)},
	} {
		errs = append(errs, unix.SetsockoptInt(fd, o.level, o.name, o.value))
	}
	return errors.Join(errs...)
}

// waitHangUp waits until the other side closes a connection. It reads nothing, because the data belongs to the
// kernel.
func waitHangUp(sock *os.File) error {
	p := []unix.PollFd{{Fd: int32(sock.Fd()), Events: unix.POLLRDHUP}}
	for {
		if _, err := unix.Poll(p, -1); err != unix.EINTR {
			return errors.New("the connection to the volume is over")
		}
	}
}
