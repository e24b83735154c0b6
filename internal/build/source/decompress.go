package source

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"pando/internal/command"
)

// maxWindow bounds the memory of the zstd decoder in bytes: `zstd --ultra -22` uses 128 MiB.
const maxWindow = 128 << 20

// decompress unpacks an archive. It determines the compression by the first bytes, because the name may be wrong.
func decompress(ctx context.Context, r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReaderSize(r, 256<<10)
	head, err := in.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		return z, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		return zstdReader{z.IOReadCloser()}, nil
	case bytes.HasPrefix(head, []byte("BZh")):
		return io.NopCloser(bzip2.NewReader(in)), nil
	case bytes.Equal(head, []byte{0xfd, '7', 'z', 'X', 'Z', 0}):
		return xz(ctx, in)
	}
	return plainReader{in}, nil
}

// zstdReader adds a hint to errors of archives that need more memory than allowed.
type zstdReader struct{ io.ReadCloser }

func (z zstdReader) Read(b []byte) (int, error) {
	n, err := z.ReadCloser.Read(b)
	switch {
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		err = fmt.Errorf("it is packed by zstd with a window of more than %d MiB (--long, --ultra), which needs as "+
			"much memory: unpack it first, `zstd -d --long=31 FILE`", maxWindow>>20)
	case errors.Is(err, zstd.ErrUnknownDictionary):
		err = errors.New("it is packed by zstd with a dictionary: unpack it first, `zstd -d -D DICTIONARY FILE`")
	}
	return n, err
}

// plainReader is an archive that is not compressed.
type plainReader struct{ io.Reader }

func (plainReader) Close() error { return nil }

// program is the output of an external decompressor.
type program struct {
	io.ReadCloser
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	why    func(error) error // explains how the program ended
	ended  bool
	err    error // result of wait
}

// xzMemory bounds the memory of xz; level 9 needs 65 MiB.
const xzMemory = "512MiB"

// xz runs the program xz, because the standard library has no decoder. Its memory is bounded, because the archive
// determines how much xz needs.
func xz(ctx context.Context, r io.Reader) (io.ReadCloser, error) {
	path, err := exec.LookPath("xz")
	if err != nil {
		return nil, errors.New(
			"it is packed with xz, which is not installed (Debian, Ubuntu: package xz-utils; Fedora: xz)",
		)
	}
	p := &program{cmd: exec.CommandContext(ctx, path, "-dc", "-M", xzMemory), stderr: &bytes.Buffer{},
		why: func(err error) error { return command.Ended(ctx, err) }}
	p.cmd.Env = []string{"LC_ALL=C.UTF-8"}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	p.cmd.Stdin, p.cmd.Stderr = r, p.stderr
	if p.ReadCloser, err = p.cmd.StdoutPipe(); err != nil {
		return nil, fmt.Errorf("xz: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("xz: %w", err)
	}
	return p, nil
}

func (p *program) Read(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.ReadCloser.Read(b)
	if errors.Is(err, io.EOF) && !p.ended {
		p.ended = true
		err = p.wait()
	}
	p.err = err
	return n, err
}

// wait returns io.EOF if the program succeeded.
func (p *program) wait() error {
	bad := p.cmd.Wait()
	output := strings.TrimSpace(p.stderr.String())
	switch {
	case bad == nil:
		return io.EOF
	case strings.Contains(output, "emory usage limit"):
		return errors.New("it is packed by xz with a dictionary that needs more than " + xzMemory +
			" of memory: unpack it first, `xz -d FILE`")
	}
	return fmt.Errorf("xz: %w: %s", p.why(bad), output)
}

func (p *program) Close() error {
	if p.ended {
		return nil
	}
	p.ended = true
	_ = p.cmd.Process.Kill() // the program may have ended
	_ = p.ReadCloser.Close()
	_ = p.cmd.Wait() // it was killed
	return nil
}
