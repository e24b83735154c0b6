package initramfs

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"pando/internal/command"
	"pando/internal/image"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// modinfo is the section .modinfo of a module: zero-terminated strings "key=value".
type modinfo struct {
	depends, softPre, aliases, firmware []string
}

func parseModinfo(module []byte) (modinfo, error) {
	var info modinfo
	f, err := elf.NewFile(bytes.NewReader(module))
	if err != nil {
		return info, fmt.Errorf("module: %w", err)
	}
	s := f.Section(".modinfo")
	if s == nil {
		return info, errors.New("module has no section .modinfo")
	}
	data, err := s.Data()
	if err != nil {
		return info, fmt.Errorf("module: section .modinfo: %w", err)
	}
	for _, kv := range strings.Split(string(data), "\x00") {
		key, value, _ := strings.Cut(kv, "=")
		switch key {
		case "depends":
			for _, d := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
				info.depends = append(info.depends, strings.ReplaceAll(d, "-", "_"))
			}
		case "softdep":
			info.softPre = append(info.softPre, softPre(strings.Fields(value))...)
		case "alias":
			info.aliases = append(info.aliases, value)
		case "firmware":
			info.firmware = append(info.firmware, value)
		}
	}
	return info, nil
}

// readModule returns the unpacked content of a module file. The program xz unpacks XZ; every Debian has it. The other
// formats are unpacked in Go.
func readModule(ctx context.Context, path string) ([]byte, error) {
	switch filepath.Ext(path) {
	case ".xz":
		out, err := exec.CommandContext(ctx, "xz", "-dc", "--", path).Output()
		if err != nil {
			return nil, fmt.Errorf("unpack %s with xz (package xz-utils): %w", path, command.Ended(ctx, err))
		}
		return out, nil
	case ".gz", ".zst":
		return readPacked(path)
	}
	return os.ReadFile(path)
}

func readPacked(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader
	if filepath.Ext(path) == ".gz" {
		r, err = gzip.NewReader(f)
	} else {
		var d *zstd.Decoder
		if d, err = zstd.NewReader(f, zstd.WithDecoderConcurrency(1)); err == nil {
			defer d.Close()
			r = d
		}
	}
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", path, err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", path, err)
	}
	return data, nil
}

// loadedModule is a module in the form in which it goes into a cpio.
type loadedModule struct {
	info     image.Module
	data     []byte
	firmware []string
}

// load reads a module of the tree and unpacks it, unless the kernel can unpack it and unpack is false.
func (t *moduleTree) load(ctx context.Context, name string, unpack bool) (loadedModule, error) {
	m := t.modules[name]
	file := filepath.Join(t.dir, m.path)
	data, err := readModule(ctx, file)
	if err != nil {
		return loadedModule{}, err
	}
	self, err := parseModinfo(data)
	if err != nil {
		return loadedModule{}, fmt.Errorf("%s: %w", file, err)
	}
	path := "/lib/modules/" + t.release + "/" + m.path
	if strings.HasSuffix(path, ".ko.xz") && t.keepXZ && !unpack {
		data, err = os.ReadFile(file)
	} else {
		path, _, _ = strings.Cut(path, ".ko")
		path += ".ko"
	}
	aliases := slices.Compact(slices.Sorted(slices.Values(m.aliases)))
	info := image.Module{Name: name, Path: path, Needs: t.needs(name), Aliases: aliases}
	return loadedModule{info: info, data: data, firmware: self.firmware}, err
}
