package nbd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Commands and attributes of the generic netlink family "nbd" (include/uapi/linux/nbd-netlink.h).
const (
	genlVersion = 1

	genlConnect     = 1
	genlDisconnect  = 2
	genlReconfigure = 3
	genlStatus      = 5

	attrIndex       = 1
	attrSize        = 2
	attrBlockSize   = 3
	attrServerFlags = 5
	attrSockets     = 7
	attrDeadTimeout = 8
	attrDeviceList  = 9
	attrBackend     = 10

	attrSocketItem = 1
	attrSocketFD   = 1

	attrDeviceItem      = 1
	attrDeviceConnected = 2
)

// ErrNoKernelNBD means that the kernel has no NBD driver loaded.
var ErrNoKernelNBD = errors.New("kernel has no nbd: load the module first (modprobe nbd nbds_max=1 max_part=0)")

// KernelDevice is one device of the kernel's NBD client, /dev/nbdN.
type KernelDevice struct {
	Index     int    // N
	Size      int64  // bytes
	BlockSize int    // bytes; 0: 4096
	Flags     uint16 // transmission flags of the server; 0: read-only
	Backend   string // id of the attached export; a reconnect must name the same; kernel 5.14 and later

	// DeadTimeout is how long reads wait for a reconnect after the socket died, in whole seconds. 0: the driver fails
	// reads at once.
	DeadTimeout time.Duration
}

// Connect gives the kernel one end of a socket pair and makes the device ready to read. The kernel keeps its own
// reference: close sock afterwards. There is no request timeout, and exactly one socket: with two sockets and no
// timeout, kernels 6.1 and 6.12 mark both dead after 30 s without an answer.
func (k KernelDevice) Connect(sock *os.File) error {
	block := k.BlockSize
	if block == 0 {
		block = 4096
	}
	flags := uint64(k.Flags)
	if flags == 0 {
		flags = flagHasFlags | flagReadOnly
	}
	return k.call("connect", genlConnect, sock,
		u64(attrSize, uint64(k.Size)),
		u64(attrBlockSize, uint64(block)),
		u64(attrServerFlags, flags),
		u64(attrDeadTimeout, uint64(k.DeadTimeout/time.Second)))
}

// Reconnect gives the kernel a new socket in place of one that died. It fails with ENOSPC while the kernel takes the
// old one for alive: try again a little later.
func (k KernelDevice) Reconnect(sock *os.File) error {
	return k.call("reconnect", genlReconfigure, sock)
}

// Disconnect detaches the device. Waiting reads fail.
func (k KernelDevice) Disconnect() error { return k.call("disconnect", genlDisconnect, nil) }

// Connected asks the kernel whether the device is attached.
func (k KernelDevice) Connected() (bool, error) {
	req, err := k.request(genlStatus)
	if err != nil {
		return false, err
	}
	msgs, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return false, fmt.Errorf("nbd%d: status: %w", k.Index, err)
	}
	for _, m := range msgs {
		if up, err := parseStatus(m); err != nil || up {
			return up, err
		}
	}
	return false, nil
}

func (k KernelDevice) call(what string, cmd uint8, sock *os.File, attrs ...*nl.RtAttr) error {
	req, err := k.request(cmd)
	if err != nil {
		return err
	}
	for _, a := range attrs {
		req.AddData(a)
	}
	if sock != nil {
		list := nl.NewRtAttr(attrSockets|unix.NLA_F_NESTED, nil)
		item := list.AddRtAttr(attrSocketItem|unix.NLA_F_NESTED, nil)
		item.AddRtAttr(attrSocketFD, nl.Uint32Attr(uint32(sock.Fd())))
		req.AddData(list)
	}
	if k.Backend != "" && cmd != genlDisconnect {
		req.AddData(nl.NewRtAttr(attrBackend, nl.ZeroTerminated(k.Backend)))
	}
	if _, err := req.Execute(unix.NETLINK_GENERIC, 0); err != nil {
		return fmt.Errorf("nbd%d: %s: %w", k.Index, what, err)
	}
	return nil
}

func (k KernelDevice) request(cmd uint8) (*nl.NetlinkRequest, error) {
	f, err := netlink.GenlFamilyGet("nbd")
	if errors.Is(err, unix.ENOENT) {
		return nil, ErrNoKernelNBD
	}
	if err != nil {
		return nil, fmt.Errorf("nbd: generic netlink family: %w", err)
	}
	req := nl.NewNetlinkRequest(int(f.ID), unix.NLM_F_ACK)
	req.AddData(&nl.Genlmsg{Command: cmd, Version: genlVersion})
	req.AddData(nl.NewRtAttr(attrIndex, nl.Uint32Attr(uint32(k.Index))))
	return req, nil
}

func u64(attr int, v uint64) *nl.RtAttr {
	return nl.NewRtAttr(attr, binary.NativeEndian.AppendUint64(nil, v))
}

// parseStatus parses the answer to STATUS for one device: a device list with one item.
func parseStatus(msg []byte) (connected bool, err error) {
	if len(msg) < nl.SizeofGenlmsg {
		return false, errors.New("nbd: status: answer is too short")
	}
	list, err := nested(msg[nl.SizeofGenlmsg:], attrDeviceList)
	if err != nil || list == nil {
		return false, err
	}
	item, err := nested(list, attrDeviceItem)
	if err != nil || item == nil {
		return false, err
	}
	up, err := nested(item, attrDeviceConnected)
	return len(up) > 0 && up[0] != 0, err
}

// nested returns the payload of the first attribute of a type, or nil.
func nested(b []byte, typ uint16) ([]byte, error) {
	attrs, err := nl.ParseRouteAttr(b)
	if err != nil {
		return nil, fmt.Errorf("nbd: status: %w", err)
	}
	for _, a := range attrs {
		if a.Attr.Type&nl.NLA_TYPE_MASK == typ {
			return a.Value, nil
		}
	}
	return nil, nil
}
