package initrd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"pando/internal/image"
	"pando/internal/store"
)

// Joined reads several parts as one file.
type Joined struct {
	parts []piece
	files []*os.File
	Size  int64
	at    int64
}

type piece struct {
	start, size int64
	io.ReaderAt
}

func (j *Joined) add(r io.ReaderAt, size int64) {
	j.parts = append(j.parts, piece{j.Size, size, r})
	j.Size += size
	if pad := -j.Size & 3; pad > 0 {
		j.add(zeros{}, pad)
	}
}

func (j *Joined) addBytes(b []byte) { j.add(bytes.NewReader(b), int64(len(b))) }

func (j *Joined) addFile(f *os.File) error {
	j.files = append(j.files, f)
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	j.add(f, fi.Size())
	return nil
}

// Read continues where the last Read or Seek ended.
func (j *Joined) Read(b []byte) (int, error) {
	for _, p := range j.parts {
		if off := j.at - p.start; off < p.size {
			n, err := p.ReadAt(b[:min(int64(len(b)), p.size-off)], off)
			j.at += int64(n)
			if n > 0 || len(b) == 0 {
				return n, nil
			}
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
	return 0, io.EOF
}

// Seek sets where the next Read begins.
func (j *Joined) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += j.at
	case io.SeekEnd:
		offset += j.Size
	}
	if offset < 0 {
		return 0, errors.New("seek before the begin")
	}
	j.at = offset
	return offset, nil
}

// Close closes the files.
func (j *Joined) Close() error {
	var err error
	for _, f := range j.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

type zeros struct{}

// ReadAt reads zeros.
func (zeros) ReadAt(b []byte, _ int64) (int, error) {
	clear(b)
	return len(b), nil
}

// Join joins the parts to one file. The kernel requires that each part begins at a multiple of four bytes.
func Join(objects *store.Dir, trust []byte, drivers []image.Driver, disks, agent []byte) (*Joined, error) {
	j := &Joined{}
	j.addBytes(trust)
	for _, d := range drivers {
		f, err := objects.Open(d.Object)
		if err == nil {
			err = j.addFile(f)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("drivers %s: %w", d.Name, err), j.Close())
		}
	}
	j.addBytes(disks)
	j.addBytes(agent)
	return j, nil
}
