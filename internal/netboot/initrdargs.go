package netboot

import (
	"bytes"
	"io"
)

// readsInitrdArgs is a message of the EFI stub of Linux (drivers/firmware/efi/libstub/efi-stub-helper.c). The stub is
// not compressed, but for architectures where a small EFI program unpacks the kernel.
var readsInitrdArgs = []byte("Loaded initrd from command line option")

// ReadsInitrdArgs reports whether a kernel that UEFI starts loads the files that its initrd= arguments name.
func ReadsInitrdArgs(kernel io.Reader) (bool, error) {
	const step = 256 << 10
	buf := make([]byte, 0, step+len(readsInitrdArgs))
	for {
		n, err := io.ReadFull(kernel, buf[len(buf):len(buf)+step])
		buf = buf[:len(buf)+n]
		if bytes.Contains(buf, readsInitrdArgs) {
			return true, nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		buf = buf[:copy(buf, buf[max(0, len(buf)-len(readsInitrdArgs)):])]
	}
}
