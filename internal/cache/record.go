package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

const (
	recordSlots  = 16
	recordSize   = 128 << 10 // bytes of one copy of a record
	recordHeader = sector
	recordName   = 32
)

// MaxRecord is the largest record, in bytes.
const MaxRecord = recordSize - recordHeader

var recordMagic = []byte("PNDR")

// record is one copy of a record on the disk.
type record struct {
	name     string
	sequence uint64 // 0: none
	data     []byte
}

func (r record) encode(id [16]byte) []byte {
	b := make([]byte, recordHeader, recordHeader+len(r.data)+sector)
	copy(b, recordMagic)
	binary.LittleEndian.PutUint32(b[8:], uint32(len(r.data)))
	b[12] = byte(len(r.name))
	binary.LittleEndian.PutUint64(b[16:], r.sequence)
	copy(b[32:], r.name)
	b = append(b, r.data...)
	binary.LittleEndian.PutUint32(b[4:], recordSum(id, b))
	return append(b, make([]byte, -len(b)&(sector-1))...)
}

func recordSum(id [16]byte, b []byte) uint32 {
	return crc32.Update(crc32.Checksum(id[:], castagnoli), castagnoli, b[8:])
}

// decodeRecord decodes a copy. Invalid bytes are the zero record.
func decodeRecord(id [16]byte, b []byte) record {
	n := int64(binary.LittleEndian.Uint32(b[8:]))
	name := int(b[12])
	if string(b[:4]) != string(recordMagic) || n > int64(len(b)-recordHeader) || name == 0 || name > recordName ||
		recordSum(id, b[:recordHeader+n]) != binary.LittleEndian.Uint32(b[4:]) {
		return record{}
	}
	return record{string(b[32:][:name]), binary.LittleEndian.Uint64(b[16:]), b[recordHeader:][:n:n]}
}

// Records gives access to the records of a cache alone. It reads no tables, which are megabytes on a large disk.
// Another process may have the cache open as a Disk at the same time, because that writes to other places.
type Records struct{ disk *Disk }

// OpenRecords opens the records of the cache in an area of size bytes. The error is ErrNotCache if there is none.
func OpenRecords(a Area, size int64, o Options) (Records, error) {
	d, err := open(a, size, o)
	if err != nil {
		return Records{}, fmt.Errorf("open the cache's records: %w", err)
	}
	return Records{d}, nil
}

// Record is Disk.Record.
func (r Records) Record(name string) ([]byte, error) { return r.disk.Record(name) }

// SetRecord is Disk.SetRecord.
func (r Records) SetRecord(name string, data []byte) error { return r.disk.SetRecord(name, data) }

func recordAt(slot, n int) int64 { return recordsAt + int64(2*slot+n)*recordSize }

// readRecord reads both copies of a slot, and returns the newer one and its number.
func (d *Disk) readRecord(slot int) (record, int, error) {
	var best record
	which := 1
	for n := range 2 {
		b, err := d.readCopy(recordAt(slot, n))
		if err != nil {
			return best, 0, err
		}
		if r := decodeRecord(d.super.id, b); r.sequence > best.sequence {
			best, which = r, n
		}
	}
	return best, which, nil
}

// readCopy reads a copy, as long as its header says. Most slots are empty.
func (d *Disk) readCopy(at int64) ([]byte, error) {
	b := make([]byte, recordHeader)
	if _, err := d.dev.ReadAt(b, at); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(b[8:])
	if string(b[:4]) != string(recordMagic) || n > MaxRecord {
		return b, nil // none
	}
	b = make([]byte, recordHeader+int(n))
	_, err := d.dev.ReadAt(b, at)
	return b, err
}

// bears reports whether a copy in a slot has this name. It reads the headers alone, because a boot waits for it.
func (d *Disk) bears(slot int, name string) (bool, error) {
	for n := range 2 {
		b := make([]byte, recordHeader)
		if _, err := d.dev.ReadAt(b, recordAt(slot, n)); err != nil {
			return false, err
		}
		if int(b[12]) == len(name) && string(b[32:][:len(name)]) == name {
			return true, nil
		}
	}
	return false, nil
}

// find returns a record, its slot, and the number of its newer copy. The slot is -1 if there is none.
func (d *Disk) find(name string) (r record, slot, which int, err error) {
	for slot := range recordSlots {
		ours, err := d.bears(slot, name)
		if err == nil && ours {
			r, which, err = d.readRecord(slot)
		}
		if err != nil || r.name == name && r.sequence > 0 {
			return r, slot, which, err
		}
	}
	return record{}, -1, 0, nil
}

// free returns a slot without a record, and the copy not to write first. If there is none, the slot is -1.
func (d *Disk) free() (slot, which int, err error) {
	for slot := range recordSlots {
		r, which, err := d.readRecord(slot)
		if err != nil || r.sequence == 0 {
			return slot, which, err
		}
	}
	return -1, 0, errRecordsFull
}

// Record returns the last record written under name, or nil. Its bytes are not trusted: the caller must check a
// signature.
func (d *Disk) Record(name string) ([]byte, error) {
	if len(name) > recordName {
		return nil, nil
	}
	r, _, _, err := d.find(name)
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", name, err)
	}
	return r.data, nil
}

// SetRecord writes a record, and returns when it is on the disk. The previous record stays until then, even if the
// power fails. Names have 1 to 32 bytes. There are 16 slots, and no record is ever removed.
func (d *Disk) SetRecord(name string, data []byte) error {
	if len(name) == 0 || len(name) > recordName || len(data) > MaxRecord {
		return fmt.Errorf(
			"write record %q of %d bytes: at most %d and %d bytes",
			name,
			len(data),
			recordName,
			MaxRecord,
		)
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	if err := d.Err(); err != nil {
		return err
	}
	old, slot, which, err := d.find(name)
	if err == nil && slot < 0 {
		slot, which, err = d.free()
	}
	if err != nil {
		return fmt.Errorf("write record %s: %w", name, err)
	}
	b := record{name, old.sequence + 1, data}.encode(d.super.id)
	if err := d.write(b, recordAt(slot, 1-which)); err != nil {
		return fmt.Errorf("write record %s: %w", name, err)
	}
	return d.sync()
}

var errRecordsFull = errors.New("all 16 record slots are taken")
