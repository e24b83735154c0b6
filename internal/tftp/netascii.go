package tftp

import (
	"bytes"
	"fmt"
	"io"
)

// maxText bounds the size of a converted file. It is held in memory, because its size is not known before.
const maxText = 1 << 20

// netascii converts line ends as RFC 764 has them: LF becomes CR LF, CR becomes CR NUL.
func netascii(c Content) (Content, error) {
	if cl, ok := c.(io.Closer); ok {
		defer cl.Close()
	}
	if c.Size() > maxText {
		return nil, fmt.Errorf("%d bytes are too many for mode netascii: use octet", c.Size())
	}
	b, err := io.ReadAll(io.NewSectionReader(c, 0, c.Size()))
	if err != nil {
		return nil, fmt.Errorf("read content: %w", err)
	}
	out := make([]byte, 0, len(b)+len(b)/16)
	for _, ch := range b {
		switch ch {
		case '\n':
			out = append(out, '\r', '\n')
		case '\r':
			out = append(out, '\r', 0)
		default:
			out = append(out, ch)
		}
	}
	return bytes.NewReader(out), nil
}
