package store

import "pando/internal/chunk"

// Observer is told about every request to a source. Many goroutines call its methods at the same time. They must not
// block.
type Observer interface {
	// Received reports a verified object with its stored size in bytes.
	Received(source string, bytes int)
	// Failed reports an attempt without success. errors.As with *chunk.WrongBytesError recognizes a source that sent
	// wrong bytes, errors.Is with ErrMissing one that does not have the object.
	Failed(source string, id chunk.ID, err error)
}
