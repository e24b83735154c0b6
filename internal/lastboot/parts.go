package lastboot

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"pando/internal/cache"
	"pando/internal/chunk"
)

// keptParts is the number of records for parts of boots, 1.7 MB in all. A cache has sixteen records: the index takes
// one, and two that older releases used are never freed.
const keptParts = 13

// keptPart is a part of a boot: the number of its record, and its digest.
type keptPart struct {
	Slot   int      `json:"slot"`
	Digest chunk.ID `json:"digest"`
}

// record returns the name of the part's record.
func (p keptPart) record() string { return fmt.Sprintf("boot part %d", p.Slot) }

func (p keptPart) read(records Records) ([]byte, error) {
	data, err := records.Record(p.record())
	if err == nil {
		err = p.Digest.Verify(data)
	}
	if err != nil {
		return nil, fmt.Errorf("kept boot, part %d: %w", p.Slot, err)
	}
	return data, nil
}

// nowhere is the slot of a part that is not on the disk.
const nowhere = -1

// placeParts assigns free records to the parts whose slot is nowhere, without those that stay uses. It returns false
// if there are too few.
func placeParts(parts, stay []keptPart) ([]keptPart, bool) {
	var busy [keptParts]bool
	for _, p := range append(stay, parts...) {
		if p.Slot != nowhere {
			busy[p.Slot] = true
		}
	}
	var out []keptPart
	next := 0
	for _, p := range parts {
		if p.Slot == nowhere {
			for next < keptParts && busy[next] {
				next++
			}
			if next == keptParts {
				return nil, false
			}
			p.Slot = next
			next++
		}
		out = append(out, p)
	}
	return out, true
}

// parts cuts a boot into parts of at most a record's size: first those that all boots of its version share, then its
// own.
func (b Boot) parts() (version, assignment [][]byte, err error) {
	l, err := json.Marshal(b.Lease)
	if err != nil {
		return nil, nil, err
	}
	return cutParts(
			joinFields(b.Manifest, b.ManifestSignature, b.Pack),
		), cutParts(
			joinFields(b.Assignment, b.Signature, l),
		), nil
}

func cutParts(b []byte) (out [][]byte) {
	for len(b) > 0 {
		n := min(len(b), cache.MaxRecord)
		out, b = append(out, b[:n]), b[n:]
	}
	return out
}

// load reads a kept boot. The caller must verify it.
func (k keptBoot) load(records Records) (*Boot, error) {
	version, err := readFields(records, k.Version)
	if err != nil {
		return nil, err
	}
	assignment, err := readFields(records, k.Assignment)
	if err != nil {
		return nil, err
	}
	b := &Boot{
		Manifest:          version[0],
		ManifestSignature: version[1],
		Pack:              version[2],
		Assignment:        assignment[0],
		Signature:         assignment[1],
	}
	if err := json.Unmarshal(assignment[2], &b.Lease); err != nil {
		return nil, fmt.Errorf("kept boot, its lease: %w", err)
	}
	return b, nil
}

// rowFields is the number of fields that joinFields puts into the parts of a version, or of an assignment.
const rowFields = 3

func readFields(records Records, parts []keptPart) (out [rowFields][]byte, err error) {
	var all []byte
	for _, p := range parts {
		data, err := p.read(records)
		if err != nil {
			return out, err
		}
		all = append(all, data...)
	}
	return splitFields(all)
}

// joinFields concatenates fields, each after its length (32 bits, little-endian). JSON would take a third more.
func joinFields(fields ...[]byte) (out []byte) {
	for _, f := range fields {
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(f))), f...)
	}
	return out
}

var errFields = errors.New("kept boot: its parts do not fit together")

// splitFields is the inverse of joinFields.
func splitFields(b []byte) (out [rowFields][]byte, err error) {
	for i := range out {
		if len(b) < 4 {
			return out, errFields
		}
		n := binary.LittleEndian.Uint32(b)
		if b = b[4:]; uint64(n) > uint64(len(b)) {
			return out, errFields
		}
		out[i], b = b[:n:n], b[n:]
	}
	if len(b) > 0 {
		return out, errFields
	}
	return out, nil
}
