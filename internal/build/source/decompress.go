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

// maxWindow bounds the memory that a zstd archive may ask for: 128 MiB is what `zstd --ultra -22` uses.
const maxWindow = 128 << 20

// decompress unpacks what an archive is packed with, by its first bytes: names lie.
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

// zstdReader says what to do about archives that cannot be read with the memory that they may have.
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

// plainReader is an archive that is not packed.
type plainReader struct{ io.Reader }

func (plainReader) Close() error { return nil }

// program is the output of a program that unpacks.
type program struct {
	io.ReadCloser
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	why    func(error) error // its end in words
	ended  bool
	err    error // of its end
}

// xzMemory bounds the memory of xz; level 9 takes 65 MiB.
const xzMemory = "512MiB"

// xz runs the program: the standard library has no decoder. Its memory is bounded, for an archive says how much it
// wants.
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

// wait is how the program ended: EOF if all is well.
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
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.ReadCloser.Close()
	_ = p.cmd.Wait() // killed
	return nil
}
