package testkit

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// wire carries frames between a host's interface and the switch's, and delays what the host sends, because the kernel
// may lack netem. It passes on virtio_net headers (PACKET_VNET_HDR), so that a checksum that is not computed yet stays
// marked as such.
type wire struct {
	host, hub *os.File      // packet sockets
	delay     *atomic.Int64 // delay of what the host sends, in nanoseconds
	ends      sync.WaitGroup
}

// frameRoom is the size of a buffer for a frame with its virtio_net header.
const frameRoom = 2048

// wireQueue is the maximum number of frames on a wire.
const wireQueue = 1 << 14

// newWire starts carrying frames. Both interfaces are in the namespace n.
func newWire(n *Net, host, hub string, delay *atomic.Int64) (*wire, error) {
	w := &wire{delay: delay}
	var err error
	if w.host, err = packets(n, host); err != nil {
		return nil, err
	}
	if w.hub, err = packets(n, hub); err != nil {
		return nil, errors.Join(err, w.host.Close())
	}
	queue := make(chan sentFrame, wireQueue)
	w.ends.Go(func() { w.take(queue) })
	w.ends.Go(func() { w.give(queue) })
	w.ends.Go(func() { w.back() })
	return w, nil
}

// packets opens a socket that sends frames over an interface and receives frames from it.
func packets(n *Net, device string) (f *os.File, err error) {
	err = n.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		f = os.NewFile(uintptr(fd), device)
		index, err := deviceIndex(device)
		return errors.Join(err,
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 16<<20),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: index}))
	})
	if err != nil && f != nil {
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("packets of %s in %s: %w", device, n.Name, err)
	}
	return f, nil
}

func deviceIndex(device string) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) // in this thread's namespace
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(device)
	if err != nil {
		return 0, err
	}
	err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, request)
	return int(request.Uint32()), err
}

func bigEndian(v uint16) uint16 { return v<<8 | v>>8 }

// sentFrame is a frame on its way, with the time of its arrival.
type sentFrame struct {
	data []byte
	due  time.Time
}

// take reads frames from the host until the socket is closed.
func (w *wire) take(queue chan<- sentFrame) {
	defer close(queue)
	buf := make([]byte, frameRoom)
	for {
		n, err := w.host.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err == nil {
			queue <- sentFrame{append([]byte(nil), buf[:n]...), time.Now().Add(time.Duration(w.delay.Load()))}
		}
	}
}

// give passes frames on when they are due. It uses nanosleep(2), which is exact to some microseconds; the timers of
// Go's runtime are exact to a millisecond.
func (w *wire) give(queue <-chan sentFrame) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // otherwise 50 µs more
	for f := range queue {
		if left := time.Until(f.due); left > 0 {
			t := unix.NsecToTimespec(left.Nanoseconds())
			_ = unix.Nanosleep(&t, nil) // a signal only makes the frame arrive earlier
		}
		_, _ = w.hub.Write(f.data) // a full queue drops the frame, as a switch does
	}
}

// back passes frames from the switch on at once.
func (w *wire) back() {
	buf := make([]byte, frameRoom)
	for {
		n, err := w.hub.Read(buf)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = w.host.Write(buf[:n]) // a full queue drops the frame
		}
	}
}

// Close stops carrying frames.
func (w *wire) Close() error {
	err := errors.Join(w.host.Close(), w.hub.Close())
	w.ends.Wait()
	return err
}
