package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"pando/internal/chunk"
	"pando/internal/fleet"
)

// Format is the only format of manifests, driver sets and provenance so far.
const Format = 1

// MaxManifest is the largest manifest, in bytes.
const MaxManifest = 64 << 10

// Encode returns the bytes of a manifest. They are signed and must be passed on unchanged: encoding the manifest
// again could give other bytes.
func (m Manifest) Encode() ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.Drivers == nil {
		m.Drivers = []Driver{}
	}
	if m.CommandLine == nil {
		m.CommandLine = []string{}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(m); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	if b.Len() > MaxManifest {
		return nil, fmt.Errorf("encode manifest: %d bytes, more than %d", b.Len(), MaxManifest)
	}
	return b.Bytes(), nil
}

// Decode decodes and validates a manifest without checking its signature. Nodes, and code whose decisions depend on
// the manifest, must use Verify.
func Decode(b []byte) (Manifest, error) {
	var m Manifest
	if len(b) > MaxManifest {
		return m, fmt.Errorf("decode manifest: %d bytes, more than %d", len(b), MaxManifest)
	}
	// Check the format first: the keys of a newer format may have another meaning.
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return m, fmt.Errorf("decode manifest: %w", err)
	}
	if head.Format != Format {
		return m, fmt.Errorf("decode manifest: format %d, this Pando knows %d; upgrade it", head.Format, Format)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return m, fmt.Errorf("decode manifest: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return m, fmt.Errorf("decode manifest: bytes follow the JSON value")
	}
	return m, m.Validate()
}

var (
	architectures = map[string]bool{"amd64": true, "arm64": true}
	release       = fleet.Spelling{Capitals: true, Inner: "._+~-", End: true, Max: 128}
	driverName    = fleet.Spelling{Inner: "_-", End: true, Max: 64}
)

// Validate returns what is wrong with a manifest, with the name of the field.
func (m Manifest) Validate() error {
	for _, check := range []func() error{m.checkHead, m.checkDrivers, m.checkCommandLine, m.checkRoot} {
		if err := check(); err != nil {
			return fmt.Errorf("manifest: %w", err)
		}
	}
	return nil
}

func (m Manifest) checkHead() error {
	switch {
	case m.Format != Format:
		return fmt.Errorf("format: %d, want %d", m.Format, Format)
	case !architectures[m.Architecture]:
		return fmt.Errorf("architecture: %q, want amd64 or arm64", m.Architecture)
	case m.Sizes.Stored < 0 || m.Sizes.Files < 0:
		return fmt.Errorf("sizes: negative")
	case m.IsExtension():
		return m.checkExtends()
	case !release.Allows(m.Kernel.Release):
		return fmt.Errorf("kernel.release: %q is not a kernel release", m.Kernel.Release)
	case m.Kernel.Object.IsZero() || m.Kernel.Size <= 0:
		return fmt.Errorf("kernel.object: missing; a version without a kernel does not boot")
	}
	return nil
}

func (m Manifest) checkDrivers() error {
	seen := map[string]bool{}
	for i, d := range m.Drivers {
		switch {
		case !driverName.Allows(d.Name) || seen[d.Name]:
			return fmt.Errorf("drivers[%d].name: %q is taken or not a name", i, d.Name)
		case d.Object.IsZero() || d.Size <= 0:
			return fmt.Errorf("drivers[%d].object: missing", i)
		}
		if err := d.checkUse(m.Drivers[:i]); err != nil {
			return fmt.Errorf("drivers[%d].%w", i, err)
		}
		seen[d.Name] = true
	}
	return nil
}

func (m Manifest) checkCommandLine() error {
	for i, arg := range m.CommandLine {
		if err := ValidArgument(arg); err != nil {
			return fmt.Errorf("command_line[%d]: %w", i, err)
		}
	}
	return nil
}

// ValidArgument checks one kernel argument. The argument goes into a line of a boot script, so it must not have white
// space or characters that a boot loader expands. Arguments with Pando's own prefix are reserved.
func ValidArgument(arg string) error {
	if arg == "" || len(arg) > 256 {
		return fmt.Errorf("kernel argument %q: want 1 to 256 bytes", arg)
	}
	for _, c := range []byte(arg) {
		if c <= ' ' || c > '~' || strings.IndexByte("$`\\;|&'", c) >= 0 {
			return fmt.Errorf("kernel argument %q: byte %q is not allowed", arg, c)
		}
	}
	for _, taken := range []string{"pando.", "BOOTIF=", "initrd=", "root=", "init=", "rdinit="} {
		if strings.HasPrefix(arg, taken) {
			return fmt.Errorf("kernel argument %q: %s is reserved for Pando", arg, taken)
		}
	}
	return nil
}

func (m Manifest) checkRoot() error {
	r := m.Root
	switch {
	case !slices.Contains(FileSystems(), r.FileSystem):
		return fmt.Errorf("root.file_system: %q, want erofs or squashfs", r.FileSystem)
	case r.Index.IsZero():
		return fmt.Errorf("root.index: missing")
	case r.Size <= 0 || r.Size%chunk.BlockSize != 0:
		return fmt.Errorf("root.size: %d is not a multiple of %d", r.Size, chunk.BlockSize)
	case r.ChunkSize <= 0 || r.ChunkSize > chunk.MaxRaw || r.ChunkSize%chunk.BlockSize != 0:
		return fmt.Errorf(
			"root.chunk_size: %d is not a multiple of %d up to %d",
			r.ChunkSize,
			chunk.BlockSize,
			chunk.MaxRaw,
		)
	}
	return nil
}
