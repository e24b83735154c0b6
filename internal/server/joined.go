package server

import (
	"bytes"
	"errors"
	"io"
	"os"
)

// joined reads several parts as one file.
type joined struct {
	parts []piece
	files []*os.File
	size  int64
	at    int64
}

type piece struct {
	start, size int64
	io.ReaderAt
}

func (j *joined) add(r io.ReaderAt, size int64) {
	j.parts = append(j.parts, piece{j.size, size, r})
	j.size += size
	if pad := -j.size & 3; pad > 0 {
		j.add(zeros{}, pad)
	}
}

func (j *joined) addBytes(b []byte) { j.add(bytes.NewReader(b), int64(len(b))) }

func (j *joined) addFile(f *os.File) error {
	j.files = append(j.files, f)
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	j.add(f, fi.Size())
	return nil
}

// Read reads on from where the last Read or Seek ended.
func (j *joined) Read(b []byte) (int, error) {
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
func (j *joined) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += j.at
	case io.SeekEnd:
		offset += j.size
	}
	if offset < 0 {
		return 0, errors.New("seek before the begin")
	}
	j.at = offset
	return offset, nil
}

// Close closes the files.
func (j *joined) Close() error {
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
